import Broker

/// The store whose sessions an export takes: opened by this process, or behind a running broker.
protocol ExportSource: Sendable {
    /// Claims and seals the next sessions.
    func page(after cursor: String?) async throws -> SessionExport.Page
    /// Claims and seals sessions that an earlier page has missed.
    func page(of handles: [SessionHandle]) async throws -> SessionExport.Page
    /// Ends sessions whose lines are durable; returns those that ended.
    func end(_ receipts: [SessionExport.Receipt]) async throws -> [SessionHandle]
}

/// The steps of an export: claim, write, sync, end, page by page (decision 100).
struct ExportRun {
    /// The result of an export.
    struct Result: Sendable, Equatable {
        var lines = 0
        /// The sessions that the export had to leave out.
        var missed: [SessionExport.Missed] = []
    }

    let source: any ExportSource
    let keeps: Bool
    /// The time for which busy sessions are tried again.
    ///
    /// A claim whose owner was killed can be taken over after a minute and 25 s.
    var patience = Duration.seconds(120)
    var pause = Duration.seconds(5)
    var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }

    /// Exports all sessions of the source.
    ///
    /// If this throws, every session that has ended has a durable line.
    func run(into file: inout ExportFile) async throws -> Result {
        var result = Result()
        var cursor: String?
        repeat {
            let page = try await source.page(after: cursor)
            result.missed += page.missed
            try await take(page, into: &file, &result)
            cursor = page.nextCursor
        } while cursor != nil
        var waited = Duration.zero
        while waited < patience, result.missed.contains(where: { $0.reason == .busy }) {
            try await sleep(pause)
            waited += pause
            try await again(into: &file, &result)
        }
        return result
    }

    /// Tries the busy sessions again.
    private func again(into file: inout ExportFile, _ result: inout Result) async throws {
        let busy = result.missed.filter { $0.reason == .busy }.map(\.handle)
        result.missed.removeAll { $0.reason == .busy }
        for start in stride(from: 0, to: busy.count, by: SessionExport.pageSize) {
            let page = try await source.page(
                of: Array(busy[start..<min(start + SessionExport.pageSize, busy.count)]))
            result.missed += page.missed
            try await take(page, into: &file, &result)
        }
    }

    /// Writes a page's lines, and ends their sessions.
    ///
    /// If a session goes on, its tokens have changed, so its line is blanked, and the session is tried again. If it has ended for
    /// another reason, the next try leaves it out.
    private func take(
        _ page: SessionExport.Page, into file: inout ExportFile, _ result: inout Result
    ) async throws {
        guard !page.lines.isEmpty else { return }
        let places = try file.append(page.lines.map(\.text))
        try file.sync()
        result.lines += page.lines.count
        guard !keeps else { return }
        let ended = Set(try await source.end(page.lines.map(\.receipt)))
        let stale = zip(page.lines, places).filter { !ended.contains($0.0.receipt.handle) }
        guard !stale.isEmpty else { return }
        for (line, place) in stale {
            try file.blank(place)
            result.lines -= 1
            result.missed.append(SessionExport.Missed(handle: line.receipt.handle, reason: .busy))
        }
        try file.sync()
    }
}
