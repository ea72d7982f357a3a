// SPDX-License-Identifier: Apache-2.0
// The parts of Asio and Beast that are no templates, compiled once (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
