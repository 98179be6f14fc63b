#include "app/window/state/demo_model.h"

#include "analysis/error.h"
#include "app/job/assets.h"

namespace kvloupe::window {

std::string demo_model_folder() {
  try {
    return job::find_asset("demo-model").string();
  } catch (const FileError&) {  // an installation without it
    return {};
  }
}

}  // namespace kvloupe::window
