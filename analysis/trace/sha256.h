#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kvloupe {

constexpr std::size_t kSha256Digits = 64;

/// SHA-256 of the added bytes. Every method throws WorkError where the library has no SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(const void* bytes, std::size_t count);
  void add(std::string_view text) { add(text.data(), text.size()); }
  /// Little-endian, 8 bytes: sizes, so that two parts cannot be mistaken for one.
  void add(std::uint64_t number);
  /// kSha256Digits of them. Nothing can be added afterwards.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace kvloupe
