#!/usr/bin/env bash
# The tests of the compiled core on arm64: cross-compiled here, run by Debian's Python for arm64 under qemu's emulation of a
# process. Part of `make gate` where what it needs is installed; else it says what is missing, and ends with status 0.
#
#   apt-get install debootstrap qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross unzip
#   tools/gate_arm64.sh [PYTHON]      as root, for debootstrap. PYTHON has setuptools, Cython and pip
#
# The arm64 system and the wheels are fetched once, into build/gate/arm64 (about 500 MB, a minute).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "${1:-python3}")

missing=()
for command in debootstrap qemu-aarch64-static aarch64-linux-gnu-gcc unzip; do
    command -v "$command" > /dev/null || missing+=("$command")
done
[ "$(id -u)" = 0 ] || missing+=(root)
if [ ${#missing[@]} -gt 0 ]; then
    echo "arm64: skipped, without ${missing[*]}"
    exit 0
fi

# Debian 12 has Python 3.11, whose wheels pip is asked for.
release=bookworm version=3.11
here=$PWD/build/gate/arm64
root=$here/root site=$here/site tree=$here/tree
if [ ! -e "$here/.fetched" ]; then
    rm -rf "$here" && mkdir -p "$site"
    debootstrap --foreign --arch=arm64 --variant=minbase --include="python$version,libpython$version-dev" \
        "$release" "$root" > "$here/debootstrap.log"
    # Its second stage would run programs of arm64; unpacked is enough for one Python.
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
    "$python" -m pip download --quiet --dest "$here/wheels" --only-binary=:all: --implementation cp \
        --python-version "$version" --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 \
        numpy lmdb bitarray click pytest hypothesis crc32c xxhash msgspec
    for wheel in "$here"/wheels/*.whl; do unzip -qo "$wheel" -d "$site"; done
    touch "$here/.fetched"
fi

rm -rf "$tree" && mkdir -p "$tree"
cp -r --preserve=timestamps fpstore tests tools setup.py pyproject.toml README.md LICENSE "$tree"
find "$tree" -name '*.so' -exec rm {} +
cd "$tree"
# setup.py runs on this machine, for that one: its headers come first, its Python's names are given.
export CC=aarch64-linux-gnu-gcc LDSHARED="aarch64-linux-gnu-gcc -shared"
_PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=".cpython-${version/./}-aarch64-linux-gnu.so" \
    CFLAGS="-I$root/usr/include/python$version -idirafter $root/usr/include" \
    "$python" setup.py --quiet build_ext --inplace

# No test that starts another process: there is nothing here that would run it. The emulator cannot map 32 GiB.
left_out="not for_memory and not are_memory_errors and not is_a_memory_error and not 2_to_the_32"
emulated=(qemu-aarch64-static -L "$root" "$root/usr/bin/python$version")
export PYTHONPATH=$tree:$site PYTHONDONTWRITEBYTECODE=1
"${emulated[@]}" -c "import platform, fpstore; print(platform.machine(), fpstore.__file__)"
"${emulated[@]}" -m pytest -p no:cacheprovider --tb=short -k "$left_out" \
    tests/test_{codec,joins,merge_kernels,pairs,pending,permutation,probe,segment,segment_ids,sort,store,store_batch}.py \
    tests/test_text_{idf,simhash,unicode}.py
