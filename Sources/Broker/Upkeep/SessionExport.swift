/// Takes sessions out of the store for another system (decision 100).
///
/// The caller asks for a page of sealed lines, writes them durably, and only then has the sessions ended. While the caller writes
/// a session's line, this export has the session's refresh claim, so the written tokens stay the newest ones.
package struct SessionExport: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// The sessions to export, the key that seals them, and the people responsible.
    package struct Order: Sendable {
        package var filter: AdminSessions.Filter
        package var key: any ExportSealing
        /// The name in the audit record.
        package var actor: String
        /// A further name in the audit record: the `--by` of the command, if `actor` is a token's name.
        package var by: String?
        /// Whether the sessions stay, so that their lines lack the tokens.
        package var keeps: Bool

        package init(
            _ filter: AdminSessions.Filter, key: any ExportSealing, actor: String, by: String? = nil, keeps: Bool
        ) {
            self.filter = filter
            self.key = key
            self.actor = actor
            self.by = by
            self.keeps = keeps
        }

        var target: String {
            let selection = [filter.provider?.text, filter.client?.text].compactMap { $0 }.joined(separator: "/")
            return (selection.isEmpty ? "all" : selection) + " to \(key.name)" + (by.map { " by \($0)" } ?? "")
        }
    }

    /// The right to end an exported session: the claim that the export holds.
    package struct Receipt: Sendable, Equatable {
        package let handle: SessionHandle
        package let tokenVersion: Int64
        package let fence: Int64

        package init(handle: SessionHandle, tokenVersion: Int64, fence: Int64) {
            self.handle = handle
            self.tokenVersion = tokenVersion
            self.fence = fence
        }
    }

    /// A sealed line of a session; `receipt` has zeros if the session stays.
    package struct Line: Sendable, Equatable {
        package let receipt: Receipt
        package let text: String

        package init(receipt: Receipt, text: String) {
            self.receipt = receipt
            self.text = text
        }
    }

    /// A session that the export had to leave out, and the reason.
    package struct Missed: Sendable, Equatable {
        package enum Reason: String, Sendable, CaseIterable {
            /// Another process refreshes the session's tokens, or the provider asked for a pause.
            case busy
            /// The subject of the last refresh is unchecked, so the tokens may be another user's.
            case unchecked
            /// This process fails to open the row.
            case unreadable
        }

        package let handle: SessionHandle
        package let reason: Reason

        package init(handle: SessionHandle, reason: Reason) {
            self.handle = handle
            self.reason = reason
        }
    }

    /// The result of one step of an export.
    package struct Page: Sendable, Equatable {
        package var lines: [Line]
        package var missed: [Missed]
        /// The cursor for the next step; nil after the last session.
        package var nextCursor: String?

        package init(lines: [Line] = [], missed: [Missed] = [], nextCursor: String? = nil) {
            self.lines = lines
            self.missed = missed
            self.nextCursor = nextCursor
        }
    }

    /// The largest number of sessions in a page.
    package static let pageSize = 100
    /// The number of sessions that are claimed or ended at once, so that they share a commit.
    private static let atOnce = 25
    /// The size of a page's lines in bytes, after which the page is full.
    private static let pageBytes = 1 << 20

    /// Claims and seals the next sessions, newest first.
    package func page(_ order: Order, cursor: String?) async throws(BrokerProblem) -> Page {
        let selector = try AdminSessions(context).selector(order.filter)
        let after = try SessionCursor.parse(cursor)
        try await begin(order)
        let rows: [SessionRow]
        do throws(StoreFailure) {
            rows = try await context.store.sessions(
                selector, .live, after: after, limit: Self.pageSize, now: context.lapseTime)
        } catch { throw BrokerProblem(error) }
        var (page, read) = try await seal(rows, order)
        if read < rows.count || rows.count == Self.pageSize {
            page.nextCursor = rows.prefix(read).last.map { SessionCursor(after: $0).text }
        }
        return page
    }

    /// Claims and seals given sessions, which an earlier page has missed; sessions that have ended meanwhile are left out.
    package func page(_ order: Order, of handles: [SessionHandle]) async throws(BrokerProblem) -> Page {
        let selector = try AdminSessions(context).selector(order.filter)
        try await begin(order)
        var rows: [SessionRow] = []
        for handle in handles.prefix(Self.pageSize) {
            do throws(StoreFailure) {
                let row = try await context.store.session(handle: handle)
                guard let row, row.isLive(at: context.lapseTime), row.lineage == nil, selector.selects(row) else {
                    continue
                }
                rows.append(row)
            } catch { throw BrokerProblem(error) }
        }
        var (page, read) = try await seal(rows, order)
        page.missed += rows.dropFirst(read).map { Missed(handle: $0.handle, reason: .busy) }
        return page
    }

    private func begin(_ order: Order) async throws(BrokerProblem) {
        try context.requireRing()
        try await AdminSessions(context).audit("export_sessions", target: order.target, actor: order.actor)
    }

    /// Seals rows in order until the page is full; returns the number of rows that were read.
    private func seal(_ rows: [SessionRow], _ order: Order) async throws(BrokerProblem) -> (page: Page, read: Int) {
        var page = Page()
        var (read, bytes) = (0, 0)
        while read < rows.count, bytes < Self.pageBytes {
            let part = Array(rows[read..<min(read + Self.atOnce, rows.count)])
            for result in try await each(part, { row in await line(row, order) }) {
                switch result {
                case .line(let line):
                    page.lines.append(line)
                    bytes += line.text.utf8.count
                case .missed(let missed): page.missed.append(missed)
                case .gone: break
                }
            }
            read += part.count
        }
        return (page, read)
    }

    private enum Sealed: Sendable {
        case line(Line)
        case missed(Missed)
        case gone
    }

    /// Claims one session, and seals its line.
    private func line(_ listed: SessionRow, _ order: Order) async -> Result<Sealed, BrokerProblem> {
        var row = listed
        // A refresh or a step-up may have changed the row since it was read.
        for _ in 0..<3 {
            func missed(_ reason: Missed.Reason) -> Result<Sealed, BrokerProblem> {
                .success(.missed(Missed(handle: row.handle, reason: reason)))
            }
            guard !row.subjectUnchecked || order.keeps else { return missed(.unchecked) }
            guard let plaintext = plaintext(row, keeps: order.keeps) else { return missed(.unreadable) }
            let fence: Int64
            if order.keeps {
                fence = 0
            } else {
                let result: RefreshClaimResult
                do throws(BrokerProblem) { result = try await claim(row) } catch { return .failure(error) }
                switch result {
                case .claimed(let grant): fence = grant.fence
                case .busy, .heldBack: return missed(.busy)
                case .gone: return .success(.gone)
                case .moved:
                    do throws(StoreFailure) {
                        guard let next = try await context.store.session(tokenDigest: row.tokenDigest) else {
                            return .success(.gone)
                        }
                        row = next
                    } catch { return .failure(BrokerProblem(error)) }
                    continue
                }
            }
            do throws(ExportKeyFailure) {
                let receipt = Receipt(
                    handle: row.handle, tokenVersion: order.keeps ? 0 : row.tokenVersion, fence: fence)
                return .success(.line(Line(receipt: receipt, text: try order.key.seal(plaintext))))
            } catch {
                return .failure(BrokerProblem(.internalError, privateDetail: error.description))
            }
        }
        return .success(.missed(Missed(handle: row.handle, reason: .busy)))
    }

    /// Claims a session's refresh; if the store's answer is lost, repeats the claim under the same name.
    private func claim(_ row: SessionRow) async throws(BrokerProblem) -> RefreshClaimResult {
        let name: ClaimID
        do throws(VaultFailure) { name = ClaimID(random: try context.vault.random(16)) } catch {
            throw BrokerProblem(error)
        }
        let claim = RefreshClaim(
            tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion, name: name,
            lifetime: context.settings.claimLifetime, now: context.lapseTime)
        do throws(StoreFailure) {
            return try await repeating { () throws(StoreFailure) in try await context.store.claimRefresh(claim) }
        } catch { throw BrokerProblem(error) }
    }

    /// Returns a session's line as plaintext; nil if this process fails to open the row.
    private func plaintext(_ row: SessionRow, keeps: Bool) -> [UInt8]? {
        guard let facts = try? SessionFacts.open(row, context.vault) else { return nil }
        guard let sealed = row.tokens else { return ExportedSession(row, facts, nil, sid: nil).json }
        guard let bytes = try? context.vault.open(sealed, as: .tokens, row: row.tokenDigest),
            let tokens = try? StoredTokens(record: bytes)
        else { return nil }
        return ExportedSession(row, facts, keeps ? nil : tokens, sid: sid(of: tokens, row, facts)).json
    }

    /// Returns the provider's session id from the stored id_token; nil unless it is the row's.
    ///
    /// The row itself has only a digest under this ring's index key.
    private func sid(of tokens: StoredTokens, _ row: SessionRow, _ facts: SessionFacts) -> String? {
        guard let digest = row.sid, let issuer = context.providers[facts.provider]?.profile.issuer,
            let parts = tokens.tokens.idToken?.reveal().split(separator: "."), parts.count == 3,
            let bytes = Base64URL.decode(parts[1]),
            let claims = try? JSONParser.parseObject(bytes, maximumBytes: 1 << 20, maximumDepth: 16),
            let sid = claims["sid"]?.string, context.vault.index(.sid, [issuer, sid]) == digest
        else { return nil }
        return sid
    }

    /// Ends sessions whose lines are durable, and leaves their tokens valid; returns those that this export has ended.
    ///
    /// A session is kept if its tokens have changed since it was claimed, or if it has ended for another reason. Its line is
    /// then out of date, and the caller removes it. If the caller hangs up, the work continues.
    package func end(
        _ receipts: [Receipt], actor: String, by: String? = nil
    ) async throws(BrokerProblem) -> [SessionHandle] {
        try await AdminSessions(context).audit(
            "end_exported", target: "\(receipts.count) sessions" + (by.map { " by \($0)" } ?? ""), actor: actor)
        let work = self
        let result = await Detached.run("export end", on: context.spawner) {
            () async -> Result<[SessionHandle], BrokerProblem> in
            do throws(BrokerProblem) { return .success(try await work.endAll(receipts)) } catch {
                return .failure(error)
            }
        }
        guard let result else { throw BrokerProblem(.storeUnavailable, privateDetail: "the caller hung up") }
        return try result.get()
    }

    private func endAll(_ receipts: [Receipt]) async throws(BrokerProblem) -> [SessionHandle] {
        var ended: [SessionHandle] = []
        for start in stride(from: 0, to: receipts.count, by: Self.atOnce) {
            let part = Array(receipts[start..<min(start + Self.atOnce, receipts.count)])
            ended += try await each(part) { receipt in await end(receipt) }.compactMap { $0 }
        }
        guard let last = ended.last else { return ended }
        // The session has ended already, so this call only waits until the endings file has all endings so far.
        let batch: EndedBatch
        do throws(StoreFailure) {
            batch = try await repeating { () throws(StoreFailure) in
                try await context.store.endSessions(
                    .handle(last), reason: .exported, now: context.clock.now(), limit: 1)
            }
        } catch { throw BrokerProblem(error) }
        guard batch.isWritten else {
            throw BrokerProblem(
                .storeUnavailable, privateDetail: "the endings file lacks the endings", retryAfter: .seconds(2))
        }
        return ended
    }

    /// Ends one session, and returns its handle; nil if it is kept.
    private func end(_ receipt: Receipt) async -> Result<SessionHandle?, BrokerProblem> {
        do throws(StoreFailure) {
            guard let row = try await context.store.session(handle: receipt.handle) else { return .success(nil) }
            // An earlier call may have ended the session, and its answer was lost.
            if row.endedAt != nil { return .success(row.endReason == .exported ? row.handle : nil) }
            let isEnded = try await context.store.condemnRefresh(
                tokenDigest: row.tokenDigest, tokenVersion: receipt.tokenVersion, fence: receipt.fence,
                reason: .exported, now: context.clock.now())
            guard isEnded else { return .success(nil) }
            EndSession(context).announce([row.tokenDigest], .exported, row.handle)
            return .success(row.handle)
        } catch {
            context.events.emit(.storeFailed(operation: "condemnRefresh", detail: "\(error)"))
            context.cache.clear()
            return .failure(BrokerProblem(error))
        }
    }

    /// Runs `body` for all items at once; returns the results in the items' order.
    private func each<Item: Sendable, Value: Sendable>(
        _ items: [Item], _ body: @escaping @Sendable (Item) async -> Result<Value, BrokerProblem>
    ) async throws(BrokerProblem) -> [Value] {
        let results = await withTaskGroup(of: (Int, Result<Value, BrokerProblem>).self) { group in
            for (index, item) in items.enumerated() { group.addTask { (index, await body(item)) } }
            var results: [(Int, Result<Value, BrokerProblem>)] = []
            for await result in group { results.append(result) }
            return results.sorted { $0.0 < $1.0 }.map(\.1)
        }
        var values: [Value] = []
        for result in results { values.append(try result.get()) }
        return values
    }

    /// Runs an operation of the store, and repeats it one time if its result is in doubt.
    private func repeating<Value>(_ body: () async throws(StoreFailure) -> Value) async throws(StoreFailure) -> Value {
        do throws(StoreFailure) { return try await body() } catch {
            guard case .inDoubt = error else { throw error }
            return try await body()
        }
    }
}

extension SessionSelector {
    /// Returns whether a filter of an export selects the row.
    fileprivate func selects(_ row: SessionRow) -> Bool {
        switch self {
        case .provider(let provider): row.provider == provider
        case .client(let client): row.client == client
        case .subject(let subject): row.subject == subject
        case .all: true
        case .token, .handle, .subjectExcept, .sid, .logout: false
        }
    }
}
