#pragma once

namespace kvloupe {

/// While one lives, the BLAS uses one thread: layers and heads run side by side on all cores, where
/// a BLAS that starts threads of its own is slower, and the last bits of its products depend on
/// their number. Several may live at once, in any threads; the last one puts back the number of
/// threads that the first one found.
class OneBlasThread {
 public:
  OneBlasThread();
  ~OneBlasThread();
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;
};

}  // namespace kvloupe
