// SPDX-License-Identifier: Apache-2.0
// CMake makes precompiled headers for a target, and a target needs a source.
