import Broker

/// Writes the 202 of a partial registration.
enum RegistrationBody {
    static func bytes(_ registration: RegistrationView) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.member("outcome", "registration_required")
            writer.member("provider", registration.provider.text)
            writer.member("state_key", registration.stateKey.reveal())
            writer.member("identifier", registration.identifier)
            writer.member("expires_at", registration.expiresAt)
            writer.name("fields")
            writer.array { writer in
                for field in registration.fields {
                    writer.object { writer in
                        writer.member("name", field.name)
                        writer.member("type", field.type.rawValue)
                        writer.member("required", field.required)
                    }
                }
            }
        }
        return writer.bytes
    }
}
