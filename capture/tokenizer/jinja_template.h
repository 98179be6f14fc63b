#pragma once

#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvloupe {

/// What a template needs and this program does not do, or what is wrong with it, or what it says
/// itself (raise_exception): "line 3 of its chat template …".
struct TemplateProblem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs a chat template: the part of Jinja2 that such templates use, with the settings of Hugging
/// Face Transformers (trim_blocks, lstrip_blocks, raise_exception, strftime_now, break, continue,
/// generation). `variables`: an object, what the template can name. An expression that is not
/// reached is read, but what it names may be unknown. strftime_now tells the local time, or
/// SOURCE_DATE_EPOCH. Throws TemplateProblem, also for one that works or writes without end.
std::string run_jinja_template(std::string_view source, const nlohmann::ordered_json& variables);

}  // namespace kvloupe
