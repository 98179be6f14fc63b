#include "analysis/base/core/error.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "analysis/base/text/text.h"

namespace kvloupe {

namespace {
int say(std::string_view program, std::string text, int code) {
  for (char& c : text) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';  // one line, whatever a library wrote
  }
  text = in_lines(text);
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(),
               text.c_str());
  return code;
}
}  // namespace

int report_failure(std::string_view program) {
  try {
    throw;
  } catch (const UsageError& error) {
    return say(program, error.what(), 2);
  } catch (const Cancelled&) {
    return say(program, "cancelled; nothing was written", 1);
  } catch (const std::bad_alloc&) {
    return say(program, "out of memory; try fewer tokens, layers or a smaller block", 1);
  } catch (const std::exception& error) {
    return say(program, error.what(), 1);
  }
}

int end_output(std::string_view program, int code) {
  errno = 0;
  std::cout.flush();
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || std::cout.bad();
  if (!lost || code != 0) return code;
  const std::string why = errno != 0 ? std::string(" (") + std::strerror(errno) + ")" : "";
  return say(program, "standard output: cannot be written" + why + "; is its disk full?", 1);
}

}  // namespace kvloupe
