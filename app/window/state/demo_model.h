#pragma once

#include <string>

namespace kvloupe::window {

/// The folder of the demo model, which comes with kvloupe; empty if it is missing.
std::string demo_model_folder();

}  // namespace kvloupe::window
