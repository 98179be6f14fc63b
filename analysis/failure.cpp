#include "analysis/failure.h"

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "analysis/error.h"

namespace kvloupe {

namespace {
int say(std::string_view program, std::string text, int code) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';  // one line, whatever a library put into its message
  }
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

}  // namespace kvloupe
