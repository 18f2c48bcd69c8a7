/// Changes the members of a token answer as the faults demand.
enum TokenFaults {
    static func apply(_ faults: Faults, to members: JSON) -> JSON {
        guard !faults.all.isEmpty else { return members }
        var out = members
        for fault in faults.all {
            switch fault.name {
            case "crlf-token": out["access_token"] = .string((out["access_token"]?.text ?? "") + "\r\nX-Injected: 1")
            case "array-token": out["access_token"] = .array([out["access_token"] ?? .null])
            case "empty-token": out["access_token"] = ""
            case "no-access-token": out["access_token"] = nil
            case "long-token":
                out["access_token"] = .string(String(repeating: "t", count: fault.value?.number ?? 70_000))
            case "no-expires-in": out["expires_in"] = nil
            case "no-token-type": out["token_type"] = nil
            case "token-type-mac": out["token_type"] = "mac"
            case "token-type-lower": out["token_type"] = .string((out["token_type"]?.text ?? "").lowercased())
            case "token-type-inverted":
                out["token_type"] = .string(FAPI2Server.inverted(out["token_type"]?.text ?? ""))
            case "token-type-bearer": out["token_type"] = "Bearer"
            case "no-refresh-token": out["refresh_token"] = nil
            case "no-scope": out["scope"] = nil
            case "scope-array":
                let scopes = (out["scope"]?.text ?? "").split(separator: " ").map { JSON.string(String($0)) }
                out["scope"] = .array(scopes)
            case "error-200":
                out = ["error": .string(fault.value?.text ?? "invalid_grant"), "error_description": "told so"]
            case "error-object": out = ["error": ["message": "told so", "type": "OAuthException", "code": 100]]
            case "duplicate-member":
                if case .object(let all) = out {
                    out = .object(all + [.init(name: "access_token", value: "second")])
                }
            case "duplicate-scope":
                if case .object(let all) = out {
                    out = .object(all + [.init(name: "scope", value: out["scope"] ?? "openid")])
                }
            case "expires-in": out["expires_in"] = fault.value ?? 0
            default:
                guard fault.name.hasPrefix("expires-in-") else { continue }
                out["expires_in"] = lifetime(String(fault.name.dropFirst("expires-in-".count)))
            }
        }
        return out
    }

    private static func lifetime(_ text: String) -> JSON? {
        switch text {
        case "absent": nil
        case "string", "\"3600\"": "3600"
        case "null": .null
        case "2^63": .raw("9223372036854775808")
        default: (try? JSON.parse(text)) ?? .string(text)
        }
    }
}
