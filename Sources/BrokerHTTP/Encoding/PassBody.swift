import Broker

/// Writes what a phone is told of its pass.
enum PassBody {
    /// Returns the object's bytes; clients with cookies have the pass itself in theirs.
    static func bytes(_ pass: GrantedPass) -> [UInt8] {
        var writer = JSONWriter(capacity: 128)
        writer.object { members(of: pass, into: &$0) }
        return writer.bytes
    }

    /// Writes the members into an object that is open.
    static func members(of pass: GrantedPass, into writer: inout JSONWriter) {
        writer.member("expires_at", pass.expiresAt.rfc3339)
        writer.member("expires_in", pass.lifetime.wholeSeconds)
        if pass.transport == .bearer { writer.member("pass", pass.text.reveal()) }
    }
}
