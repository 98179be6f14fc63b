#pragma once

#include <utf8proc.h>

#include <cstdlib>
#include <string>

namespace kvloupe::test {

/// Normal form C by the library's own sort, quadratic in a run of marks: the second path.
inline std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string form(reinterpret_cast<const char*>(result), static_cast<std::size_t>(size));
  std::free(result);
  return form;
}

}  // namespace kvloupe::test
