/// Where this machine reaches the management listener of a configuration file.
enum ManagementAddress {
    private static let path = "management.listen"

    /// Reads that part of the file alone: what else it names (secrets above all) need not be here.
    static func read(_ file: String) throws -> String {
        let text: String
        do throws(ConfigurationFailure) { text = try Configuration.text(of: file) } catch {
            throw ManagementClient.fault("\(error)")
        }
        let context = ConfigContext(sources: .process(directory: ""))
        guard let root = context.compose(text) else { throw ManagementClient.fault("\(file) is not YAML") }
        let section = ConfigSection(root, path: "", pattern: "", line: 1, context: context)
        let listen = ManagementSettings(section.section("management")).listen
        if let problem = context.finish().first(where: { $0.severity == .error && $0.path == path }) {
            throw ManagementClient.fault("\(file): \(problem)")
        }
        return url(listen)
    }

    /// Returns the URL of a listener; one that listens everywhere is on loopback, too.
    static func url(_ listen: ListenAddress) -> String {
        switch listen.host {
        case "0.0.0.0": "http://127.0.0.1:\(listen.port)"
        case "::": "http://[::1]:\(listen.port)"
        case let host where host.contains(":"): "http://[\(host)]:\(listen.port)"
        default: "http://\(listen.host):\(listen.port)"
        }
    }
}
