#pragma once

namespace kvloupe {

/// Entries per head that layer `layer` of `layers` holds when `budget` is the mean over the layers
/// and `seen` tokens were processed (PyramidKV): max − l(max − min)/(L − 1), rounded half to even,
/// at least 1; min = N/β, max = 2N − min; where max > n − w: max = n − w, min = 2N − max. Over all
/// layers the sum is L·N exactly, except where the 1 raises it. N where n ≤ N, where there is one
/// layer, or where min < w or max < N. w: kvpress's window of the score.
int pyramid_budget(int layer, int layers, int budget, double beta, int seen, int window = 0);

}  // namespace kvloupe
