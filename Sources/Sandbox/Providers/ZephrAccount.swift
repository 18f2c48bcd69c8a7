import HTTPTypes
import Hummingbird

/// Zephr's calls that act on the session in the `blaize_session` cookie.
struct ZephrAccount {
    let call: Call

    func answer() -> Response {
        switch (call.endpoint, call.method) {
        case ("login", .post): return login()
        case ("logout", .post): return logout()
        case ("anonymous", .post): return anonymous()
        case ("account", .get): return account()
        case ("profile", _): return profile()
        case ("schema", .get): return schema()
        case ("sessions", .get): return sessions()
        case ("sessions", .delete): return deleteSessions()
        case ("sso_status", .get):
            return .json(["status": session?.email == nil ? "unknown" : "authenticated", "meta": [:]])
        default: return ZephrErrors(call: call).answer(405, "Method Not Allowed")
        }
    }

    private var session: ZephrSession? {
        guard let id = call.cookie("blaize_session") else { return nil }
        return call.state.with { $0.zephrSessions[id] }
    }

    private func account() -> Response {
        guard let session, let email = session.email else { return ZephrErrors(call: call).answer(401, "Unauthorized") }
        let user = call.state.user(session.user)
        var shown = email
        if call.faults.has("userinfo-invalid-sub") { shown = "somebody-else@example.org" }
        var identifiers: JSON = ["email_address": .string(shown)]
        if call.faults.has("account-no-email") { identifiers = [:] }
        return .text(
            JSON.object([
                .init(name: "identifiers", value: identifiers),
                .init(name: "tracking_id", value: .string(session.trackingID)),
                .init(name: "email_verified", value: user.json["email_verified"] ?? false),
            ]).serialized, type: "application/json")
    }

    private func profile() -> Response {
        guard let id = call.cookie("blaize_session"), let session, session.email != nil else {
            return ZephrErrors(call: call).answer(401, "Unauthorized")
        }
        guard call.method != .get else { return .json(session.attributes) }
        guard let body = call.json else { return ZephrErrors(call: call).answer(400, "Malformed request") }
        let merged = call.method == .put ? body : session.attributes.merging(body)
        call.state.with { $0.zephrSessions[id]?.attributes = merged }
        return .json(["message": "Profile updated"])
    }

    private func login() -> Response {
        let email = call.json?["identifiers"]?["email_address"]?.text ?? ""
        guard email.hasSuffix("@example.org") else { return ZephrErrors(call: call).answer(404, "Unknown user") }
        guard call.json?["validators"]?["password"]?.text == "sandbox-password" else {
            return ZephrErrors(call: call).answer(401, "Wrong password")
        }
        let name = String(email.prefix { $0 != "@" })
        let id = Random.token("bs-")
        let tracking = Random.token("tr-", bytes: 12)
        let record = ZephrSession(user: name, email: email, trackingID: tracking, attributes: [:])
        call.state.with { $0.zephrSessions[id] = record }
        return ZephrCookies.answer(session: id, tracking: tracking, message: "Logged in", call: call)
    }

    private func anonymous() -> Response {
        let id = Random.token("bs-")
        let tracking = Random.token("tr-", bytes: 12)
        let record = ZephrSession(user: "", email: nil, trackingID: tracking, attributes: [:])
        call.state.with { $0.zephrSessions[id] = record }
        return ZephrCookies.answer(session: id, tracking: tracking, message: "Session created", call: call, status: 201)
    }

    private func logout() -> Response {
        guard let id = call.cookie("blaize_session") else { return ZephrErrors(call: call).answer(400, "No session") }
        _ = call.state.with { $0.zephrSessions.removeValue(forKey: id) }
        return .text(
            #"{"message":"Session deleted"}"#, type: "application/json",
            headers: [("Set-Cookie", "blaize_session=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/;")])
    }

    private func sessions() -> Response {
        guard let id = call.cookie("blaize_session"), let session, session.email != nil else {
            return ZephrErrors(call: call).answer(401, "Unauthorized")
        }
        return .json([["id": .string(id), "startDate": "2026-11-20T21:00:00Z", "isRequestingSession": true]])
    }

    /// Deletes sessions of the calling user.
    ///
    /// If the path names a session, only this session is deleted. Otherwise all are deleted, or with `except-current` all
    /// except the calling session.
    private func deleteSessions() -> Response {
        guard let own = call.cookie("blaize_session"), let session else {
            return ZephrErrors(call: call).answer(401, "Unauthorized")
        }
        let named = call.path.hasSuffix("/sessions") ? nil : call.path.split(separator: "/").last.map(String.init)
        let keepsOwn = call.queryPairs["except-current"] == "true"
        let ended = call.state.with { storage -> Int in
            let mine = storage.zephrSessions.filter { id, other in
                other.user == session.user && (named == nil ? !(keepsOwn && id == own) : id == named)
            }
            for id in mine.keys { storage.zephrSessions[id] = nil }
            return mine.count
        }
        return named != nil && ended == 0 ? ZephrErrors(call: call).answer(404, "Not Found") : .empty(200)
    }

    private func schema() -> Response {
        guard session != nil else { return ZephrErrors(call: call).answer(401, "Unauthorized") }
        let required = call.settings.json["required_attributes"]?.elements?.compactMap(\.text) ?? []
        var fields = required.map { slug -> JSON in
            [
                "slug": .string(slug), "required": true, "label": .string(slug), "input-type": "text",
                "publicly-writable": true,
            ]
        }
        fields.append([
            "slug": "newsletter", "required": false, "label": "Newsletter", "input-type": "checkbox",
            "publicly-writable": true,
        ])
        fields.append([
            "slug": "birth-year", "required": false, "label": "Year of birth", "input-type": "number",
            "validation-expression": "[0-9]{4}", "publicly-writable": true,
        ])
        return .json(.array(fields))
    }
}
