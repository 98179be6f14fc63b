#pragma once

#include <string>
#include <string_view>

namespace kvloupe::test {

/// What keeps a text from being well-formed XML, with what stands there; empty where it is. Knows
/// what our pages use: a doctype, elements, quoted attributes, entities, CDATA sections.
std::string why_not_well_formed(std::string_view text);

}  // namespace kvloupe::test
