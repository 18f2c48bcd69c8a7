import Broker
import Foundation

/// Measures the process itself, under the usual names of Prometheus clients.
enum ProcessMetrics {
    /// Reads memory and descriptors from the system.
    static func measure(_ metrics: MetricsRegistry) {
        if let statm = BoundedFile.read("/proc/self/statm", limit: 4096) {
            let pages = String(decoding: statm, as: UTF8.self).split(separator: " ").compactMap { Int64($0) }
            if pages.count > 1 { metrics.gauge("process_resident_memory_bytes").set(pages[1] * Int64(getpagesize())) }
        }
        if let open = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
            metrics.gauge("process_open_fds").set(Int64(open.count))
        }
        metrics.gauge("process_start_time_seconds").set(started)
    }

    private static let started = Double(SystemClock.wallTime().milliseconds) / 1000

    /// Records the time of the start.
    static func begin() { _ = started }
}
