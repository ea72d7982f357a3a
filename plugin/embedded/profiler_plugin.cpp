// SPDX-License-Identifier: Apache-2.0
#include "plugin/embedded/profiler_plugin.h"

#include "base/file.h"

extern "C" {
extern const char st_embedded_profiler_plugin[];
extern const char st_embedded_profiler_plugin_end[];
}

namespace stalltrace {

std::string_view profiler_plugin() {
  return {st_embedded_profiler_plugin,
          static_cast<size_t>(st_embedded_profiler_plugin_end - st_embedded_profiler_plugin)};
}

Result<std::string> write_profiler_plugin(const std::string& folder) {
  std::string path = folder + "/" + std::string(kProfilerPluginFile);
  ST_TRY(write_file(path, profiler_plugin(), 0755));
  return path;
}

}  // namespace stalltrace
