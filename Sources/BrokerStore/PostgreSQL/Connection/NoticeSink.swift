import CLibPQ

/// Hears what the server says beside its answers; libpq would print it.
///
/// Touched by the connection's thread only, inside libpq's calls.
final class NoticeSink {
    /// Whether the server warned since the last look.
    private var warned = false

    /// Returns whether the server warned since the last look: what it was committing may not be on the standby.
    func takeWarning() -> Bool {
        defer { warned = false }
        return warned
    }

    fileprivate func hear(_ result: OpaquePointer?) {
        guard let result, let severity = PQresultErrorField(result, CInt(UInt8(ascii: "V"))) else { return }
        if String(cString: severity) == "WARNING" { warned = true }
    }

    /// Has the connection's notices come here, for as long as the sink is held.
    func attach(to connection: OpaquePointer) {
        PQsetNoticeReceiver(
            connection,
            { context, result in
                guard let context else { return }
                Unmanaged<NoticeSink>.fromOpaque(context).takeUnretainedValue().hear(result)
            }, Unmanaged.passUnretained(self).toOpaque())
    }
}
