// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace stalltrace {

/// Whether it is the number of an address of IPv6 that is valid on one link alone (fe80::/10), with or without a zone
/// ("fe80::1%eth0").
bool is_link_local(const std::string& number);

}  // namespace stalltrace
