#pragma once

namespace kvloupe {

/// The BLAS uses one thread from now on. For a program that runs all its loops on oneTBB, at its
/// start.
void use_one_blas_thread();

/// While an object of this class exists, the BLAS uses one thread. Layers and heads already run in
/// parallel on all cores: a BLAS with threads of its own is slower, and the last bits of its
/// products depend on their number. Several objects may exist at once, in any threads; the last one
/// restores the number of threads that the first one found.
class OneBlasThread {
 public:
  OneBlasThread();
  ~OneBlasThread();
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;
};

}  // namespace kvloupe
