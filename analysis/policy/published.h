#pragma once
// How the authors of each method ran it: the one list that every default comes from.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// A method as its authors ran it. The part of the same name alone may be less than the method.
struct PublishedPolicy {
  std::string part;    // the part of the catalogue that the method is known for
  std::string method;  // as its authors call it
  std::string spec;    // how they ran it
  std::string plain;   // the part alone, where that is another policy; else empty
  std::string why;     // what the published policy has that the plain one lacks; or its source
};

const std::vector<PublishedPolicy>& published_policies();

/// How the authors ran the method of this part. A part without a published policy stands for
/// itself, so that any name of the catalogue may be given.
std::string published_spec(std::string_view part);

/// A list for a default: each of `parts` as published_spec() has it, with the modifiers that stand
/// behind it ("h2o+caote"); "A" and "B" stay.
std::string published_list(std::initializer_list<std::string_view> parts);

}  // namespace kvloupe
