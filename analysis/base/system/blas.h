#pragma once
// The BLAS of this process: its threads and its kernels.

#include <functional>
#include <string>
#include <string_view>

#include "analysis/base/system/vectors.h"

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

/// OpenBLAS chooses its kernels when it is loaded, by the processor's model. A processor that is
/// newer than the library gets kernels of 2004. The name of faster kernels that it can run; empty
/// where those called `own` are as good.
std::string_view better_kernels(std::string_view own, ProcessorVectors processor);

/// Whether products of the BLAS, of rows and columns that fill no vector, are those of plain loops.
bool products_are_right();

/// Chooses among the kernels that OpenBLAS took by itself and the better ones: the first whose
/// products are right. Runs by itself before main(), in each program and library that has
/// replays or models; not where the user has set OPENBLAS_CORETYPE, nor where another part of the
/// process loaded the library first. `right`: for tests.
void choose_blas_kernels(ProcessorVectors processor,
                         const std::function<bool()>& right = products_are_right);

/// For --version: "SkylakeX" or "SkylakeX (OpenBLAS took Haswell)"; "not known" with a BLAS that
/// does not tell.
std::string blas_kernels();

}  // namespace kvloupe
