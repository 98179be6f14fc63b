#pragma once

namespace kvloupe::window {

enum class Theme { light, dark };

}  // namespace kvloupe::window
