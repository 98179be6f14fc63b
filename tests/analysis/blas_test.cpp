#include "analysis/base/system/blas.h"
#include "tests/support/test.h"

#include <cblas.h>

#ifdef __x86_64__
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace kvloupe {
namespace {

/// As on a processor that OpenBLAS does not know: it takes these kernels by itself.
class BlasKernels : public testing::Test {
 protected:
  void TearDown() override {
    if (gotoblas_dynamic_init != nullptr) load_with(own_);
    if (!given_.empty()) setenv("OPENBLAS_CORETYPE", given_.c_str(), 1);
  }
  static void load_with(const std::string& kernels) {
    gotoblas_dynamic_quit();
    setenv("OPENBLAS_CORETYPE", kernels.c_str(), 1);
    gotoblas_dynamic_init();
    unsetenv("OPENBLAS_CORETYPE");
  }
  void SetUp() override {
    if (gotoblas_dynamic_init == nullptr) GTEST_SKIP() << "a BLAS without a choice of kernels";
    if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "no kernels to choose among";
    load_with("Prescott");
  }

 private:
  const std::string own_ = openblas_get_corename();
  const std::string given_ = [] {
    const char* value = std::getenv("OPENBLAS_CORETYPE");
    return value == nullptr ? "" : value;
  }();
};

TEST_F(BlasKernels, AnUnknownProcessorGetsKernelsThatItCanRun) {
  ASSERT_STREQ(openblas_get_corename(), "Prescott");
  choose_blas_kernels({.avx2 = true});
  EXPECT_STREQ(openblas_get_corename(), "Haswell");
  EXPECT_EQ(blas_kernels(), "Haswell (OpenBLAS took Prescott)");
  EXPECT_TRUE(products_are_right());
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);  // a child chooses for itself
}

TEST_F(BlasKernels, KernelsWithWrongProductsAreNotUsed) {
  int asked = 0;
  choose_blas_kernels({.avx2 = true}, [&asked] { return ++asked > 1; });
  EXPECT_STREQ(openblas_get_corename(), "Prescott");
  EXPECT_EQ(blas_kernels(), "Prescott");
}

TEST_F(BlasKernels, OwnKernelsWithWrongProductsAreReplaced) {
  load_with("Haswell");
  choose_blas_kernels({}, [] { return false; });
  EXPECT_STREQ(openblas_get_corename(), "Prescott");
  EXPECT_EQ(blas_kernels(), "Prescott (OpenBLAS took Haswell)");
}

TEST(BlasKernelsTest, OnlyBetterKernelsReplaceTheLibrarysOwn) {
  const ProcessorVectors avx512{.avx2 = true, .avx512 = true}, avx2{.avx2 = true};
  for (const char* own : {"SkylakeX", "Cooperlake", "SapphireRapids"})
    EXPECT_EQ(better_kernels(own, avx512), "") << own;
  for (const char* own : {"Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen"})
    EXPECT_EQ(better_kernels(own, avx512), "SkylakeX") << own;
  for (const char* own : {"Prescott", "Nehalem", "Sandybridge", "Piledriver"})
    EXPECT_EQ(better_kernels(own, avx2), "Haswell") << own;
  for (const char* own : {"Haswell", "Zen", "Excavator"})
    EXPECT_EQ(better_kernels(own, avx2), "") << own;
  EXPECT_EQ(better_kernels("Prescott", {}), "");
}

/// What a program does at its start, without a word of the user's.
TEST(BlasKernelsTest, ThisProgramHasTheBestOfItsProcessor) {
  if (gotoblas_dynamic_init == nullptr || std::getenv("OPENBLAS_CORETYPE") != nullptr)
    GTEST_SKIP() << "there was nothing to choose";
  const ProcessorVectors here{
      .avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
      .avx512 = __builtin_cpu_supports("avx512vl") != 0};
  EXPECT_EQ(better_kernels(openblas_get_corename(), here), "") << openblas_get_corename();
}

}  // namespace
}  // namespace kvloupe
#endif
