/*
 * A program that serves a device to tests over standard input and output. It loads a libcuda.so.1:
 * this folder's, or a real driver. So the tests need neither cgo nor the build tag, and sanitizers
 * check a separate process.
 *
 *	server libcuda.so.1 [file with machine code]
 *
 * A request is a 32-bit number and its fields, little-endian. An answer is the driver's 32-bit
 * code; more follows only if the code is 0.
 *
 *	1 alloc     u64 bytes                                      -> u64 address
 *	2 free      u64 address
 *	3 upload    u64 address, u64 bytes, the bytes
 *	4 download  u64 address, u64 bytes                         -> the bytes
 *	5 launch    u32 length, name, u32 grid[3], u32 block[3], u32 bytes, arguments
 *	6 sync
 *	7 order     u32 1: the software device uses the reverse order; 0: the normal order
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <string>
#include <vector>

static void *library;

// Calls a function of the driver by its name.
template <class... Args>
static int cu(const char *name, Args... args) {
  auto *f = (int (*)(Args...))dlsym(library, name);
  if (f == nullptr) {
    fprintf(stderr, "server: no %s: %s\n", name, dlerror());
    exit(3);
  }
  return f(args...);
}

static void must(const char *what, int code) {
  if (code == 0) return;
  fprintf(stderr, "server: %s: %d\n", what, code);
  exit(3);
}

static void read(void *to, size_t bytes) {
  if (bytes > 0 && fread(to, 1, bytes, stdin) != bytes) exit(feof(stdin) ? 0 : 3);
}

template <class T>
static T read() {
  T value;
  read(&value, sizeof value);
  return value;
}

static void answer(int32_t code, const void *from = nullptr, size_t bytes = 0) {
  fwrite(&code, 1, sizeof code, stdout);
  if (code == 0 && bytes > 0) fwrite(from, 1, bytes, stdout);
  fflush(stdout);
}

static void *module, *stream;

static int launch(const std::string &name, const uint32_t (&grid)[3], const uint32_t (&block)[3], void *args) {
  static std::map<std::string, void *> functions;
  void *&f = functions[name];
  if (f == nullptr)
    if (const int code = cu("cuModuleGetFunction", &f, module, name.c_str())) return code;
  void *params[] = {args};
  return cu("cuLaunchKernel", f, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0u, stream, &params[0],
            (void **)nullptr);
}

static std::vector<char> file(const char *path) {
  std::vector<char> text;
  FILE *f = fopen(path, "rb");
  if (f == nullptr) return text;
  for (int c; (c = getc(f)) != EOF;) text.push_back((char)c);
  fclose(f);
  text.push_back(0);
  return text;
}

int main(int argc, char **argv) {
  if (argc < 2 || (library = dlopen(argv[1], RTLD_NOW)) == nullptr) {
    fprintf(stderr, "server: %s\n", argc < 2 ? "no library" : dlerror());
    return 3;
  }
  const std::vector<char> code = argc > 2 ? file(argv[2]) : std::vector<char>(1);
  int device;
  void *context;
  must("cuInit", cu("cuInit", 0u));
  must("cuDeviceGet", cu("cuDeviceGet", &device, 0));
  must("cuDevicePrimaryCtxRetain", cu("cuDevicePrimaryCtxRetain", &context, device));
  must("cuCtxPushCurrent_v2", cu("cuCtxPushCurrent_v2", context));
  must("cuModuleLoadData", cu("cuModuleLoadData", &module, (const void *)code.data()));
  must("cuStreamCreateWithPriority", cu("cuStreamCreateWithPriority", &stream, 1u, 0));
  std::vector<char> bytes;
  for (;;) {
    switch (const uint32_t what = read<uint32_t>()) {
      case 1: {
        uint64_t at = 0;
        const int code = cu("cuMemAlloc_v2", &at, (size_t)read<uint64_t>());
        answer(code, &at, sizeof at);
        break;
      }
      case 2: answer(cu("cuMemFree_v2", (unsigned long long)read<uint64_t>())); break;
      case 3: {
        const uint64_t to = read<uint64_t>();
        bytes.resize(read<uint64_t>());
        read(bytes.data(), bytes.size());
        int code = cu("cuMemcpyHtoDAsync_v2", (unsigned long long)to, (const void *)bytes.data(), bytes.size(), stream);
        if (code == 0) code = cu("cuStreamSynchronize", stream);
        answer(code);
        break;
      }
      case 4: {
        const uint64_t from = read<uint64_t>();
        bytes.resize(read<uint64_t>());
        int code = cu("cuMemcpyDtoHAsync_v2", (void *)bytes.data(), (unsigned long long)from, bytes.size(), stream);
        if (code == 0) code = cu("cuStreamSynchronize", stream);
        answer(code, bytes.data(), bytes.size());
        break;
      }
      case 5: {
        std::string name(read<uint32_t>(), 0);
        read(&name[0], name.size());
        uint32_t grid[3], block[3];
        read(grid, sizeof grid);
        read(block, sizeof block);
        std::vector<char> args(read<uint32_t>());
        read(args.data(), args.size());
        answer(launch(name, grid, block, args.data()));
        break;
      }
      case 6: answer(cu("cuStreamSynchronize", stream)); break;
      case 7:
        setenv("PACELINE_SOFTWARE_ORDER", read<uint32_t>() != 0 ? "reverse" : "", 1);
        answer(0);
        break;
      default: fprintf(stderr, "server: request %u\n", what); return 3;
    }
  }
}
