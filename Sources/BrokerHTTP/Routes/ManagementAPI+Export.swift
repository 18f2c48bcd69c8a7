import Broker
import BrokerWire
import HTTPTypes

extension ManagementAPI {
    /// `POST /admin/v1/exports`: claims the next sessions, and returns their lines, sealed for the caller's key.
    @Sendable func exportSessions(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .export)
        guard let exportKey = store?.exportKey else { throw BrokerProblem(.notFound) }
        var object = try object(call)
        let pem = object.text("for", required: true, length: 1...8192, where: Self.isPEM)
        let by = object.text("by", required: true, length: 1...63)
        var filter = AdminSessions.Filter()
        filter.provider = object.name("provider")
        filter.client = object.name("client")
        let keeps = object.flag("keep")
        let cursor = object.text("cursor", length: 1...256)
        let handles = handles(&object, required: false) { handle, _ in handle }
        if cursor != nil, handles != nil { object.fault("cursor", .conflict) }
        try object.finish()
        guard let pem, let by else { throw BrokerProblem(.invalidRequest) }
        let key: any ExportSealing
        do throws(ManagementStore.Refusal) { key = try exportKey(pem) } catch {
            throw BrokerProblem(
                .invalidRequest, detail: "The key \(error.text).", with: .fields([FieldFault("/for", .notAllowed)]))
        }
        let order = SessionExport.Order(filter, key: key, actor: token.name, by: by, keeps: keeps)
        let page =
            if let handles {
                try await sessions.export.page(order, of: handles)
            } else {
                try await sessions.export.page(order, cursor: cursor)
            }
        return Answers.json(.ok, Self.body(page), call)
    }

    /// `POST /admin/v1/exports/end`: ends sessions whose lines the caller has stored.
    @Sendable func endExported(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .export)
        var object = try object(call)
        let by = object.text("by", required: true, length: 1...63)
        let receipts = handles(&object, required: true) { handle, item in
            let version = item.integer("token_version", required: true, in: 1...Int64.max)
            let fence = item.integer("fence", required: true, in: 1...Int64.max)
            guard let version, let fence else { return SessionExport.Receipt?.none }
            return SessionExport.Receipt(handle: handle, tokenVersion: version, fence: fence)
        }
        try object.finish()
        guard let by, let receipts else { throw BrokerProblem(.invalidRequest) }
        let ended = try await sessions.export.end(receipts, actor: token.name, by: by)
        var writer = JSONWriter(capacity: 4096)
        writer.object { writer in
            writer.name("ended")
            writer.array { writer in for handle in ended { writer.string(handle.text) } }
        }
        return Answers.json(.ok, writer.bytes, call)
    }

    /// Reads the member `sessions`, a list of objects with a handle.
    private func handles<Value>(
        _ object: inout RequestObject, required: Bool, _ body: (SessionHandle, inout RequestObject) -> Value?
    ) -> [Value]? {
        object.list("sessions", required: required, maximum: SessionExport.pageSize) { item in
            guard let text = item.text("handle", required: true, length: 26...26) else { return nil }
            guard let handle = SessionHandle(text) else {
                item.fault("handle", .malformed)
                return nil
            }
            return body(handle, &item)
        }
    }

    /// Returns whether the character may be in a key in PEM.
    private static func isPEM(_ scalar: Unicode.Scalar) -> Bool {
        RequestText.isASCIIText(scalar) || scalar == "\n" || scalar == "\r"
    }

    private static func body(_ page: SessionExport.Page) -> [UInt8] {
        var writer = JSONWriter(capacity: 65_536)
        writer.object { writer in
            writer.name("lines")
            writer.array { writer in
                for line in page.lines {
                    writer.object { writer in
                        writer.member("handle", line.receipt.handle.text)
                        writer.member("token_version", line.receipt.tokenVersion)
                        writer.member("fence", line.receipt.fence)
                        writer.member("line", line.text)
                    }
                }
            }
            writer.name("missed")
            writer.array { writer in
                for missed in page.missed {
                    writer.object { writer in
                        writer.member("handle", missed.handle.text)
                        writer.member("reason", missed.reason.rawValue)
                    }
                }
            }
            writer.member("next_cursor", page.nextCursor)
        }
        return writer.bytes
    }
}
