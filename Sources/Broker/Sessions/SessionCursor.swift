extension SessionCursor {
    /// The cursor as an opaque text for the caller.
    ///
    /// The text is readable, because it contains only a time and a handle.
    package var text: String { Base64URL.encode(Array("\(moment.milliseconds).\(handle.text)".utf8)) }

    /// Parses the cursor of a request, or throws `invalid_request`.
    static func parse(_ text: String?) throws(BrokerProblem) -> SessionCursor? {
        guard let text else { return nil }
        guard let cursor = SessionCursor(text: text) else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("cursor", .malformed)]))
        }
        return cursor
    }

    /// Parses a cursor, or returns nil (SEC-98).
    package init?(text: String) {
        guard text.utf8.count <= 128, let bytes = Base64URL.decode(text),
            let plain = String(validating: bytes, as: UTF8.self), let dot = plain.firstIndex(of: "."),
            let time = Int64(plain[..<dot]), let handle = SessionHandle(String(plain[plain.index(after: dot)...]))
        else { return nil }
        self.init(moment: WallTime(milliseconds: time), handle: handle)
    }
}

/// A position in a list of sessions: after the session with this time and handle.
///
/// Live sessions are listed by their creation, ended sessions by their end.
package struct SessionCursor: Sendable, Equatable {
    package let moment: WallTime
    package let handle: SessionHandle

    package init(moment: WallTime, handle: SessionHandle) {
        self.moment = moment
        self.handle = handle
    }

    /// Creates the cursor that continues after this row.
    package init(after row: SessionRow) { self.init(moment: row.endedAt ?? row.createdAt, handle: row.handle) }
}
