#pragma once

#include <string>
#include <string_view>

namespace kvloupe::test {

/// The first error that keeps a text from being well-formed XML, with the text there; empty if it
/// is well-formed. Knows the parts that our pages use: a doctype, elements, quoted attributes,
/// entities, CDATA sections.
std::string why_not_well_formed(std::string_view text);

}  // namespace kvloupe::test
