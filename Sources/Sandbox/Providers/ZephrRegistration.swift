import HTTPTypes
import Hummingbird

/// `POST /blaize/register` with `validators.token_exchange`.
struct ZephrRegistration {
    let call: Call

    func answer() -> Response {
        guard call.method == .post, let body = call.json, let validators = body["validators"] else {
            return ZephrErrors(call: call).answer(400, "Malformed request")
        }
        if let fault = call.faults.all.first(where: { $0.name.hasPrefix("register-") }),
            let instead = misbehave(fault)
        {
            return instead
        }
        guard let key = validators["token_exchange"]?.text else {
            return ZephrErrors(call: call).answer(400, "An e-mail address is missing")
        }
        let now = call.now
        let found = call.state.with { $0.zephrStateKeys[key] }
        guard let found else { return ZephrErrors(call: call).answer(404, "Unknown token") }
        guard !found.spent else { return ZephrErrors(call: call).answer(410, "The token was used") }
        guard found.expiresAt > now else { return ZephrErrors(call: call).answer(401, "The token has expired") }
        let attributes = body["attributes"] ?? [:]
        if let refusal = check(attributes) { return ZephrErrors(call: call).answer(400, refusal) }
        let domain = found.email.split(separator: "@").last.map(String.init) ?? ""
        let blocked = call.settings.json["blocked_domains"]?.elements?.compactMap(\.text) ?? []
        if blocked.contains(domain) { return ZephrErrors(call: call).answer(403, "E-mail domain is not allowed") }
        if found.user == "taken" { return ZephrErrors(call: call).answer(409, "User already exists") }
        return register(key, found, attributes)
    }

    private func check(_ attributes: JSON) -> String? {
        let required = call.settings.json["required_attributes"]?.elements?.compactMap(\.text) ?? []
        for slug in required {
            guard let value = attributes[slug], value != .null, value != "" else { return "\(slug) is required" }
        }
        for member in attributes.members ?? [] {
            switch member.value {
            case .object, .array, .null: return "\(member.name) is not valid"
            default: break
            }
        }
        return attributes.members == nil ? "attributes are not an object" : nil
    }

    private func register(_ key: String, _ found: ZephrStateKey, _ attributes: JSON) -> Response {
        let session = Random.token("bs-")
        let tracking = Random.token("tr-", bytes: 12)
        let record = ZephrSession(user: found.user, email: found.email, trackingID: tracking, attributes: attributes)
        let first = call.state.with { storage -> Bool in
            guard storage.zephrStateKeys[key]?.spent == false else { return false }
            storage.zephrStateKeys[key]?.spent = true
            storage.zephrSessions[session] = record
            storage.zephrAccounts.insert(found.user)
            return true
        }
        guard first else { return ZephrErrors(call: call).answer(410, "The token was used") }
        return ZephrCookies.answer(session: session, tracking: tracking, message: "User registered", call: call)
    }

    private func misbehave(_ fault: Fault) -> Response? {
        let errors = ZephrErrors(call: call)
        switch fault.name {
        case "register-exists": return errors.answer(409, "User already exists")
        case "register-domain": return errors.answer(403, "E-mail domain is not allowed")
        case "register-weak": return errors.answer(400, "Password too weak")
        case "register-key-unknown": return errors.answer(404, "Unknown token")
        case "register-key-expired": return errors.answer(401, "The token has expired")
        case "register-key-spent": return errors.answer(410, "The token was used")
        default: return nil
        }
    }
}
