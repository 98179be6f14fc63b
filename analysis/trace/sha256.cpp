#include "analysis/trace/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "analysis/base/core/error.h"

namespace kvloupe {

namespace {
constexpr std::size_t kDigestBytes = kSha256Digits / 2;

void require(bool condition) {
  if (!condition) throw WorkError("cannot compute SHA-256: OpenSSL refuses");
}
}  // namespace

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> evp{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(context_->evp && EVP_DigestInit_ex(context_->evp.get(), EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::add(const void* bytes, std::size_t count) {
  require(EVP_DigestUpdate(context_->evp.get(), bytes, count) == 1);
}

void Sha256::add(std::uint64_t number) {
  std::array<unsigned char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(number >> (8 * i));
  add(bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, kDigestBytes> digest{};
  unsigned length = 0;
  require(EVP_DigestFinal_ex(context_->evp.get(), digest.data(), &length) == 1 &&
          length == kDigestBytes);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace kvloupe
