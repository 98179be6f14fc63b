#pragma once

namespace kvloupe {

/// Entries per head that layer `layer` of `layers` holds when `budget` is the mean over the layers
/// and `seen` tokens were processed (PyramidKV): max − l(max − min)/(L − 1), rounded half to even,
/// at least 1; min = N/β, max = 2N − min; where max > n: max = n, min = 2N − n. Over all layers the
/// sum is L·N exactly, except where the 1 raises it. N where n ≤ N or there is one layer.
int pyramid_budget(int layer, int layers, int budget, double beta, int seen);

}  // namespace kvloupe
