// SPDX-License-Identifier: Apache-2.0
#include "serve/http/tls.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <array>
#include <memory>

#include "base/file.h"
#include "base/handle.h"
#include "base/text.h"

namespace stalltrace::serve {
namespace {

using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

constexpr size_t kLargestPem = 256 << 10;
constexpr long kDay = 24 * 3600;

std::unexpected<Error> fail_tls(std::string_view what) {
  std::array<char, 200> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  return fail(fmt::format("{}: {}", what, reason.data()));
}

std::string content(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : "";
}

std::string fingerprint_of(const Certificate& certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate.get(), &der);
  if (size <= 0) {
    return "";
  }
  std::string fingerprint = serve::fingerprint_of({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  OPENSSL_free(der);
  return fingerprint;
}

/// Never asks for a pass phrase on the terminal.
int no_pass_phrase(char* /*to*/, int /*size*/, int /*writes*/, void* /*context*/) { return -1; }

}  // namespace

void prepare_tls() {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
                   nullptr);
}

std::string fingerprint_of(std::string_view der) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(der.data(), der.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += fmt::format("{:02x}", digest[i]);
  }
  return text;
}

Result<std::string> parse_fingerprint(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  std::string digits;
  for (const char c : text) {
    if (c != ':' || digits == kPrefix.substr(0, kPrefix.size() - 1)) {
      digits += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
  }
  if (digits.starts_with(kPrefix)) {
    digits.erase(0, kPrefix.size());
  }
  if (digits.size() != 64 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return fail(fmt::format("'{}' is not a fingerprint", text.substr(0, 100)),
                "give the 64 hex digits that 'stalltrace serve' prints", ErrorKind::kUsage);
  }
  return digits;
}

Result<TlsIdentity> load_tls_identity(const std::string& certificate_path, const std::string& key_path) {
  prepare_tls();
  TlsIdentity identity;
  ST_ASSIGN(identity.certificate, read_file(certificate_path, kLargestPem));
  ST_ASSIGN(const UniqueFd key_file, open_regular(key_path));
  struct stat status {};
  if (::fstat(key_file.get(), &status) != 0 || (status.st_mode & 077) != 0) {
    return fail(key_path + ": others may read this key, or change it", fmt::format("chmod 600 {}", key_path));
  }
  ST_ASSIGN(identity.key, read_file(key_path, kLargestPem));
  const auto bio_of = [](const std::string& pem) {
    return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  };
  const Certificate certificate(
      PEM_read_bio_X509(bio_of(identity.certificate).get(), nullptr, no_pass_phrase, nullptr));
  if (!certificate) {
    return fail_tls(certificate_path + ": not a certificate in PEM");
  }
  const Key key(PEM_read_bio_PrivateKey(bio_of(identity.key).get(), nullptr, no_pass_phrase, nullptr));
  if (!key) {
    return fail_tls(key_path + ": not a private key in PEM without a pass phrase");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return fail(fmt::format("{}: not the key of the certificate in {}", key_path, certificate_path),
                "give the two files that were made together");
  }
  identity.fingerprint = fingerprint_of(certificate);
  return identity;
}

Result<TlsIdentity> make_tls_identity() {
  prepare_tls();
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  uint64_t serial = 0;
  if (!key || !certificate || RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) {
    return fail_tls("make a certificate");
  }
  X509* x509 = certificate.get();
  X509_set_version(x509, X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(x509), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -kDay);  // the other side's clock may be behind
  X509_time_adj_ex(X509_getm_notAfter(x509), 3650, 0, nullptr);
  X509_NAME* name = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("stalltrace"), -1, -1, 0);
  X509_set_issuer_name(x509, name);
  X509_set_pubkey(x509, key.get());
  const Bio pem(BIO_new(BIO_s_mem()));
  const Bio key_pem(BIO_new(BIO_s_mem()));
  if (!pem || !key_pem || X509_sign(x509, key.get(), EVP_sha256()) == 0 || PEM_write_bio_X509(pem.get(), x509) != 1 ||
      PEM_write_bio_PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return fail_tls("make a certificate");
  }
  return TlsIdentity{content(pem), content(key_pem), fingerprint_of(certificate)};
}

}  // namespace stalltrace::serve
