// The digests that name a blob.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace lacuna {

/// A digest of bytes that arrive in parts.
class Digest {
 public:
  static Digest sha256();
  /// The object id that git gives to a file of `size` bytes: SHA-1 of "blob SIZE\0" and the content.
  static Digest git_blob(int64_t size);

  void update(std::string_view bytes);
  /// The digest in lower-case hexadecimal. Call it once, at the end.
  std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  Digest();

  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace lacuna
