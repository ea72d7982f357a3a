// SPDX-License-Identifier: Apache-2.0
#include "serve/http/tls.h"

#include <gtest/gtest.h>

#include "serve/http/token.h"
#include "store/testing/test_support.h"

namespace stalltrace::serve {
namespace {

std::string write(const std::string& path, const std::string& content, mode_t mode = 0600) {
  std::ofstream(path) << content;
  ::chmod(path.c_str(), mode);
  return path;
}

TEST(Tls, ACertificateIsLoadedWithItsKey) {
  const store::TemporaryFolder folder;
  const auto made = make_tls_identity();
  const auto other = make_tls_identity();
  ASSERT_TRUE(made && other);
  EXPECT_NE(made->fingerprint, other->fingerprint);
  const std::string certificate = write(folder / "certificate", made->certificate);
  const std::string key = write(folder / "key", made->key);
  const auto loaded = load_tls_identity(certificate, key);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().what;
  EXPECT_EQ(loaded->fingerprint, made->fingerprint);
  EXPECT_FALSE(load_tls_identity(certificate, write(folder / "other", other->key)));
  EXPECT_FALSE(load_tls_identity(certificate, folder / "nothing"));
  EXPECT_FALSE(load_tls_identity(certificate, write(folder / "text", "no key")));
  EXPECT_FALSE(load_tls_identity(key, key));
  EXPECT_FALSE(load_tls_identity(certificate, write(folder / "open", made->key, 0666)));
}

TEST(Tls, FingerprintsAsPeopleCopyThem) {
  std::string digits;
  std::string with_colons;
  for (int i = 0; i < 32; ++i) {
    digits += "a1";
    with_colons += i > 0 ? ":A1" : "A1";
  }
  for (const std::string& text : {digits, with_colons, "sha256:" + digits, "SHA256:" + with_colons}) {
    EXPECT_EQ(parse_fingerprint(text).value_or(""), digits) << text;
  }
  for (const std::string& text : {std::string(), digits.substr(1), digits + "a1", "g" + digits.substr(1)}) {
    EXPECT_FALSE(parse_fingerprint(text)) << text;
  }
}

TEST(Token, IsReadFromAPrivateFile) {
  const store::TemporaryFolder folder;
  EXPECT_EQ(load_token(write(folder / "a", "0123456789abcdef\nnotes\n")).value_or(""), "0123456789abcdef");
  EXPECT_FALSE(load_token(write(folder / "b", "0123456789abcdef\n", 0640)));
  EXPECT_FALSE(load_token(write(folder / "c", "short\n")));
  EXPECT_FALSE(load_token(write(folder / "d", "")));
  EXPECT_FALSE(load_token(write(folder / "e", "0123456789 abcdef\n")));
  EXPECT_FALSE(load_token(folder / "nothing"));
}

}  // namespace
}  // namespace stalltrace::serve
