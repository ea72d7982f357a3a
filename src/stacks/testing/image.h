// SPDX-License-Identifier: Apache-2.0
// A memory image of a Python process: recorded, synthetic or fuzzed. A page holds only the relevant pieces; its other
// bytes are zero. Pages without a piece are not mapped.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/text.h"
#include "stacks/memory/memory.h"
#include "stacks/python/find_python.h"

namespace stalltrace::stacks {

struct Image {
  static constexpr uint64_t kPieceBytes = 64;
  static constexpr uint64_t kPageBytes = 4096;
  using Piece = std::array<std::byte, kPieceBytes>;

  PythonProgram program;
  std::vector<pid_t> tids;
  pid_t main = 0;
  std::map<uint64_t, Piece> pieces;  // by address / kPieceBytes
};

/// The image as readable memory. Every `flip`-th page read has its words in another order, as if the process had
/// changed it.
class ImageMemory final : public Memory {
 public:
  explicit ImageMemory(const Image& image, unsigned flip = 0) : flip_(flip) {
    for (const auto& [number, piece] : image.pieces) {
      constexpr uint64_t kPieces = Image::kPageBytes / Image::kPieceBytes;
      auto& page = pages_.try_emplace(number / kPieces, Image::kPageBytes).first->second;
      std::ranges::copy(piece, page.begin() + static_cast<std::ptrdiff_t>(number % kPieces * Image::kPieceBytes));
    }
  }

  bool read(uint64_t address, std::span<std::byte> into) override {
    ++reads_;
    for (size_t done = 0; done < into.size();) {
      const auto page = pages_.find((address + done) / Image::kPageBytes);
      if (page == pages_.end()) {
        return false;
      }
      const uint64_t offset = (address + done) % Image::kPageBytes;
      const size_t some = std::min<size_t>(into.size() - done, Image::kPageBytes - offset);
      std::memcpy(into.data() + done, page->second.data() + offset, some);
      done += some;
    }
    if (flip_ != 0 && reads_ % flip_ == 0) {
      constexpr size_t kWord = 8;
      for (size_t i = 0; i + 2 * kWord <= into.size(); i += 2 * kWord) {
        std::swap_ranges(into.begin() + static_cast<std::ptrdiff_t>(i),
                         into.begin() + static_cast<std::ptrdiff_t>(i + kWord),
                         into.begin() + static_cast<std::ptrdiff_t>(i + kWord));
      }
    }
    return true;
  }

 private:
  std::unordered_map<uint64_t, std::vector<std::byte>> pages_;
  unsigned flip_;
  unsigned reads_ = 0;
};

/// The text form: the program, the threads, the pieces in hexadecimal, and an empty line.
inline std::string image_text(const Image& image) {
  std::string text =
      fmt::format("{} {:x} {:x} {}", image.program.minor, image.program.runtime, image.program.code_type, image.main);
  for (const pid_t tid : image.tids) {
    text += fmt::format(" {}", tid);
  }
  for (const auto& [number, piece] : image.pieces) {
    text += fmt::format("\n{:x} ", number);
    for (const std::byte byte : piece) {
      text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    }
  }
  return text + "\n\n";
}

/// Parses text written by a test; ignores everything after the empty line.
inline Image image_of_text(std::string_view text) {
  const auto hex = [](std::string_view digits) { return std::stoull(std::string(digits), nullptr, 16); };
  const auto lines = split(text.substr(0, text.find("\n\n")), '\n');
  const auto head = split(lines[0], ' ');
  Image image;
  image.program.minor = static_cast<uint32_t>(parse_integer(head[0]).value_or(0));
  image.program.version = fmt::format("3.{}", image.program.minor);
  image.program.runtime = hex(head.at(1));
  image.program.code_type = hex(head.at(2));
  image.main = static_cast<pid_t>(parse_integer(head.at(3)).value_or(0));
  for (size_t i = 4; i < head.size(); ++i) {
    image.tids.push_back(static_cast<pid_t>(parse_integer(head[i]).value_or(0)));
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto words = split(lines[i], ' ');
    Image::Piece& piece = image.pieces[hex(words[0])];
    for (size_t byte = 0; byte < piece.size(); ++byte) {
      piece[byte] = static_cast<std::byte>(hex(words.at(1).substr(2 * byte, 2)));
    }
  }
  return image;
}

// The byte form for a fuzzer: minor version, flags, addresses, threads, pieces.
inline std::string image_bytes(const Image& image) {
  std::string text;
  const auto put = [&](const auto& value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(static_cast<uint8_t>(image.program.minor));
  put(uint8_t{0});
  put(static_cast<uint8_t>(image.tids.size()));
  put(image.program.runtime);
  put(image.program.code_type);
  put(image.main);
  for (const pid_t tid : image.tids) {
    put(tid);
  }
  for (const auto& [number, piece] : image.pieces) {
    put(number);
    put(piece);
  }
  return text;
}

/// Reads as much of an image as the bytes contain; `flip` is the byte after the version.
inline Image image_of(std::span<const uint8_t> bytes, unsigned& flip) {
  Image image;
  const auto take = [&](auto& value) {
    if (bytes.size() < sizeof value) {
      bytes = {};
      return false;
    }
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes = bytes.subspan(sizeof value);
    return true;
  };
  uint8_t minor = 0;
  uint8_t flipped = 0;
  uint8_t threads = 0;
  if (!take(minor) || !take(flipped) || !take(threads) || !take(image.program.runtime) ||
      !take(image.program.code_type) || !take(image.main)) {
    return image;
  }
  flip = flipped;
  image.program.minor = minor;
  image.program.version = "3." + std::to_string(minor);
  image.tids.resize(threads);
  for (pid_t& tid : image.tids) {
    take(tid);
  }
  uint64_t number = 0;
  Image::Piece piece{};
  while (take(number) && take(piece)) {
    image.pieces[number] = piece;
  }
  return image;
}

}  // namespace stalltrace::stacks
