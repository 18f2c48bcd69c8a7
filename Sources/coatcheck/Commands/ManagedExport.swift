import Broker

/// An export from a running broker, through its management listener.
struct ManagedExport: ExportSource {
    let client: ManagementClient
    let pem: String
    let by: String
    let provider: String?
    let clientName: String?
    let keeps: Bool

    /// The time for one page, because the broker waits for its disk and its database.
    private static let patience = Duration.seconds(120)

    func page(after cursor: String?) async throws -> SessionExport.Page {
        try await page { writer in if let cursor { writer.member("cursor", cursor) } }
    }

    func page(of handles: [SessionHandle]) async throws -> SessionExport.Page {
        try await page { writer in
            writer.name("sessions")
            writer.array { writer in
                for handle in handles { writer.object { $0.member("handle", handle.text) } }
            }
        }
    }

    func end(_ receipts: [SessionExport.Receipt]) async throws -> [SessionHandle] {
        var writer = JSONWriter(capacity: 16_384)
        writer.object { writer in
            writer.member("by", by)
            writer.name("sessions")
            writer.array { writer in
                for receipt in receipts {
                    writer.object { writer in
                        writer.member("handle", receipt.handle.text)
                        writer.member("token_version", receipt.tokenVersion)
                        writer.member("fence", receipt.fence)
                    }
                }
            }
        }
        let answer = try await client.call(
            "POST", "/admin/v1/exports/end", body: writer.bytes, within: Self.patience)
        guard let ended = answer?["ended"]?.array else { throw unusable }
        return ended.compactMap { $0.string.flatMap { SessionHandle($0) } }
    }

    private func page(_ more: (inout JSONWriter) -> Void) async throws -> SessionExport.Page {
        var writer = JSONWriter(capacity: 8192)
        writer.object { writer in
            writer.member("for", pem)
            writer.member("by", by)
            if let provider { writer.member("provider", provider) }
            if let clientName { writer.member("client", clientName) }
            writer.member("keep", keeps)
            more(&writer)
        }
        let answer = try await client.call("POST", "/admin/v1/exports", body: writer.bytes, within: Self.patience)
        guard let lines = answer?["lines"]?.array, let missed = answer?["missed"]?.array else { throw unusable }
        var page = SessionExport.Page(nextCursor: answer?["next_cursor"]?.string)
        for item in lines {
            guard let object = item.object, let handle = object["handle"]?.string.flatMap({ SessionHandle($0) }),
                let version = object["token_version"]?.integer, let fence = object["fence"]?.integer,
                let text = object["line"]?.string
            else { throw unusable }
            page.lines.append(
                SessionExport.Line(
                    receipt: SessionExport.Receipt(handle: handle, tokenVersion: version, fence: fence), text: text))
        }
        for item in missed {
            guard let object = item.object, let handle = object["handle"]?.string.flatMap({ SessionHandle($0) }),
                let reason = object["reason"]?.string.flatMap({ SessionExport.Missed.Reason(rawValue: $0) })
            else { throw unusable }
            page.missed.append(SessionExport.Missed(handle: handle, reason: reason))
        }
        return page
    }

    private var unusable: StartFailure {
        StartFailure("the broker's answer has another form; it may be of another version")
    }
}
