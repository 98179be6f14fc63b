#pragma once

namespace kvloupe::figure {

/// How far the corner of a stroke may reach, in its widths: sharper corners are cut off. Else the
/// corner of a steep curve reaches beyond its point. A triangle's corner of 60° takes 2.
inline constexpr double kMiterLimit = 2.2;

}  // namespace kvloupe::figure
