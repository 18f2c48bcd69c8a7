import Broker

/// Writes the data that an app needs to draw its sign-in buttons (`GET /v1/providers`).
enum ProvidersBody {
    static func bytes(_ profiles: [ProviderProfile]) -> [UInt8] {
        var writer = JSONWriter(capacity: 1024)
        writer.object { writer in
            writer.name("items")
            writer.array { writer in
                for profile in profiles {
                    writer.object { provider(profile, into: &$0) }
                }
            }
        }
        return writer.bytes
    }

    private static func provider(_ profile: ProviderProfile, into writer: inout JSONWriter) {
        writer.member("name", profile.name.text)
        writer.member("kind", profile.kind.rawValue)
        writer.member("display_name", profile.displayName)
        writer.name("clients")
        writer.array { writer in
            for client in profile.clients {
                writer.object { writer in
                    writer.member("name", client.name.text)
                    writer.member("login", client.login.rawValue)
                    writer.member("transport", client.transport.rawValue)
                    writer.member("pkce", client.pkce.rawValue)
                    strings("redirect_uris", client.redirectURIs.map(\.text), into: &writer)
                    strings("scope", client.scope, into: &writer)
                    writer.name("binding")
                    writer.object { writer in
                        writer.member("mode", client.binding.mode.rawValue)
                        writer.member("evidence", client.binding.evidence.rawValue)
                    }
                    if profile.kind == .zephr { strings("social_providers", client.socialProviders, into: &writer) }
                }
            }
        }
    }

    private static func strings(_ name: String, _ values: [String], into writer: inout JSONWriter) {
        writer.name(name)
        writer.array { writer in for value in values { writer.string(value) } }
    }
}
