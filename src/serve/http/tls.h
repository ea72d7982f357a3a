// SPDX-License-Identifier: Apache-2.0
// Certificates: loaded, made at start, and known by their fingerprint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::serve {

/// A certificate with its key, both as PEM.
struct TlsIdentity {
  std::string certificate;
  std::string key;
  std::string fingerprint;  // of the first certificate
};

/// From files. Errors name the file: not readable, not PEM, a key that does not belong to the certificate.
Result<TlsIdentity> load_tls_identity(const std::string& certificate_path, const std::string& key_path);

/// A new key (P-256) and a certificate that it signed itself, for those who compare its fingerprint.
Result<TlsIdentity> make_tls_identity();

/// SHA-256, of a certificate in DER or of other bytes, as 64 lower-case hex digits.
std::string fingerprint_of(std::string_view der);
/// Takes what people copy: upper case, and colons between the bytes.
Result<std::string> parse_fingerprint(std::string_view text);

/// OpenSSL reads no configuration of the host. Before the first use of it.
void prepare_tls();

}  // namespace stalltrace::serve
