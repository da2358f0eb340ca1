/* Included before a *_body.h by the file that compiles it for any machine. */
#define KERNEL(name) name##_portable
