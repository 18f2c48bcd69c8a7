import FoundationEssentials

/// The initial state of a sandbox: users, clients, settings and faults from one JSON file, in the form of the control API.
///
/// `{users: {name: {…}}, clients: {provider: {id: {…}}}, settings: {provider: {…}}, faults: {provider: [{…}]}}`
package struct SeedFile: Sendable {
    /// The reason why a file was refused.
    package struct Refused: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    private let json: JSON

    /// Reads and parses a file.
    package init(path: String) throws(Refused) {
        guard let data = try? Data(contentsOf: URL(filePath: path)) else {
            throw Refused(description: "\(path) cannot be read")
        }
        try self.init(Array(data))
    }

    /// Parses a file; refuses an unknown member, provider or fault.
    package init(_ bytes: [UInt8]) throws(Refused) {
        guard let json = try? JSON.parse(bytes), let members = json.members else {
            throw Refused(description: "a seed file is one JSON object")
        }
        let known = ["users", "clients", "settings", "faults"]
        if let stranger = members.first(where: { !known.contains($0.name) }) {
            throw Refused(description: "`\(stranger.name)` is none of \(known.joined(separator: ", "))")
        }
        for kind in known.dropFirst() {
            for member in json[kind]?.members ?? []
            where Catalogue.named(member.name) == nil && !(kind == "faults" && member.name == "*") {
                throw Refused(description: "`\(kind).\(member.name)`: no such provider")
            }
        }
        for member in json["faults"]?.members ?? [] {
            let faults = member.value.elements ?? [member.value]
            guard faults.allSatisfy({ $0["fault"]?.text.map(FaultName.isKnown) ?? false }) else {
                throw Refused(description: "`faults.\(member.name)` holds a fault that is unknown, or has no name")
            }
        }
        self.json = json
    }

    /// Configures a sandbox.
    func apply(to control: SandboxControl) {
        for user in json["users"]?.members ?? [] { control.set(user: user.name, user.value) }
        for provider in json["clients"]?.members ?? [] {
            for client in provider.value.members ?? [] {
                control.set(client: client.name, of: provider.name, client.value)
            }
        }
        for provider in json["settings"]?.members ?? [] { control.set(settings: provider.value, of: provider.name) }
        for provider in json["faults"]?.members ?? [] {
            for fault in provider.value.elements ?? [provider.value] {
                if let fault = Fault(provider: provider.name, json: fault) { try? control.place(fault) }
            }
        }
    }
}
