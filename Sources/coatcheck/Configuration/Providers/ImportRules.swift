import Broker
import BrokerProviders

/// Warns of imports and moves that are accepted for more than a year.
enum ImportRules {
    /// Returns a problem for each client whose imports end more than a year from now.
    ///
    /// `check` refuses such a file. A running broker only logs the problem, because its clock may be wrong (decision 48).
    static func problems(
        _ clients: [ClientSection], _ lines: ConfigLines, now: WallTime, severity: ConfigProblem.Severity
    ) -> [ConfigProblem] {
        clients.flatMap { client in
            let profile = client.settings.profile
            let ends = [("import_tokens", profile.importsUntil), ("move_in", profile.moveIn?.until)]
            return ends.compactMap { key, until -> ConfigProblem? in
                guard let until, until.since(now) > ImportMarks.longestPeriod else { return nil }
                let path = "\(client.location.path).\(key).until"
                return ConfigProblem(
                    line: lines.line(of: path), path: path, message: "is more than a year away", severity: severity)
            }
        }
    }
}
