// Asks a store from JavaScript, through one process that answers a line with a line.
//
//     node examples/probe.mjs web.fpstore 9f3a5c0012ab44de 0x12ff
//
// Prints query, fingerprint, distance and id of each match. FPSTORE_COMMAND names the command where it is not on the PATH.
// `add STORE - --if-new --unbuffered` is asked in the same way, with lines such as {"fingerprint": "...", "id": "17"}.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export class Coprocess {
  constructor(...args) {
    this.process = spawn(process.env.FPSTORE_COMMAND ?? "fpstore", args, { stdio: ["pipe", "pipe", "inherit"] });
    this.waiting = []; // answers come in the order of the questions
    createInterface({ input: this.process.stdout }).on("line", (line) => this.waiting.shift()(JSON.parse(line)));
    this.ended = new Promise((resolve) => {
      this.process.on("error", (error) => resolve(error.message));
      this.process.on("close", (status) => resolve(status));
    });
    this.process.stdin.on("error", () => {}); // it has ended, which ended tells
  }

  // question: {fingerprint: "9f3a5c0012ab44de"} or {text: "..."}, and what else the command takes, such as an id.
  ask(question) {
    return new Promise((resolve, reject) => {
      this.waiting.push(resolve);
      this.ended.then((how) => reject(new Error(`fpstore has ended: ${how}`)));
      this.process.stdin.write(`${JSON.stringify(question)}\n`);
    });
  }

  // Resolves to the exit status: 0 if all went well.
  end() {
    this.process.stdin.end();
    return this.ended;
  }
}

const [store, ...fingerprints] = process.argv.slice(2);
const probe = new Coprocess("probe", store, "--input", "-", "--unbuffered");
for (const fingerprint of fingerprints) {
  const answer = await probe.ask({ fingerprint });
  if (answer.error) {
    console.error(`${fingerprint}: ${answer.error.message}`);
    continue;
  }
  for (const match of answer.matches) {
    console.log([answer.query_fingerprint, match.fingerprint, match.distance, match.id].join("\t"));
  }
}
process.exitCode = await probe.end();
