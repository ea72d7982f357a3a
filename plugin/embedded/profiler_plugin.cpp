// SPDX-License-Identifier: Apache-2.0
#include "plugin/embedded/profiler_plugin.h"

#include <sys/stat.h>

#include <cerrno>

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
  ST_TRY(write_file(path, profiler_plugin()));
  if (::chmod(path.c_str(), 0755) != 0) {
    return fail_errno("make " + path + " readable for all", errno);
  }
  return path;
}

}  // namespace stalltrace
