// Checks of the C++ test programs: what t.h is for those in C.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <paceline.hpp>

#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) {                                           \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                               \
    }                                                             \
  } while (0)

// f throws an Error with this code, whose text contains says.
template <class F>
void throws(int code, const char *says, F &&f) {
  try {
    f();
  } catch (const paceline::Error &e) {
    if (e.code() == code && std::strstr(e.what(), says) != nullptr) return;
    std::printf("%s \"%s\", must be %s \"...%s...\"\n", paceline_status_str(e.code()), e.what(),
                paceline_status_str(code), says);
    std::exit(1);
  }
  std::printf("no error, must be %s \"...%s...\"\n", paceline_status_str(code), says);
  std::exit(1);
}
