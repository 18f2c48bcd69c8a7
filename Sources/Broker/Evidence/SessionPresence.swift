/// The presence key of a session, as it was registered.
package struct SessionPresence: Sendable, Equatable {
    /// The key's thumbprint (RFC 7638).
    package let thumbprint: Digest
    package let registeredAt: WallTime

    package init(thumbprint: Digest, registeredAt: WallTime) {
        self.thumbprint = thumbprint
        self.registeredAt = registeredAt
    }

    /// The thumbprint as RFC 9449 section 6.1 writes it.
    package var jkt: String { Base64URL.encode(thumbprint.bytes) }
}

extension SessionPresence {
    private static let format: UInt8 = 1

    /// The record to seal.
    package var record: [UInt8] {
        var writer = RecordWriter(format: Self.format)
        writer.string(jkt)
        writer.integer(registeredAt.milliseconds)
        return writer.bytes
    }

    /// Reads a record after it was opened.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var reader = try RecordReader(bytes, format: Self.format)
        guard let thumbprint = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        self.init(thumbprint: thumbprint, registeredAt: WallTime(milliseconds: try reader.integer()))
    }
}

extension ResumeSession {
    /// Opens the presence key of a session; nil if the session has none.
    ///
    /// If the sealed key was tampered with, the session ends, as for its other sealed values.
    package func presence(of session: LiveSession) throws(BrokerProblem) -> SessionPresence? {
        try session.row.presence.map { stored throws(BrokerProblem) in try open(stored, of: session.row) }
    }

    /// Opens a session's presence key, even if the key was stored after `row` was read.
    func open(_ stored: StoredPresence, of row: SessionRow) throws(BrokerProblem) -> SessionPresence {
        do {
            return try SessionPresence(
                record: try context.vault.open(stored.sealed, as: .presence, row: row.tokenDigest))
        } catch {
            throw wasChanged(row, .presence, error)
        }
    }

    /// Returns the owner's view of a session, with its presence key.
    package func view(of session: LiveSession) throws(BrokerProblem) -> SessionView {
        var view = session.view
        view.presence = try presence(of: session)
        return view
    }
}
