import Broker

/// Writes the description of a pass for the app.
enum PassBody {
    /// Returns the object's bytes.
    ///
    /// Clients with cookies get the pass only in the cookie, so this object leaves the pass out.
    static func bytes(_ pass: GrantedPass) -> [UInt8] {
        var writer = JSONWriter(capacity: 128)
        writer.object { members(of: pass, into: &$0) }
        return writer.bytes
    }

    /// Writes the members into an object that the caller has opened.
    static func members(of pass: GrantedPass, into writer: inout JSONWriter) {
        writer.member("expires_at", pass.expiresAt)
        writer.member("expires_in", pass.lifetime.wholeSeconds)
        if pass.transport == .bearer { writer.member("pass", pass.text.reveal()) }
    }
}
