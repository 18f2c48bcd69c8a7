package import Broker

/// Properties with the value of the problem's payload. Each is nil or empty if the payload is of another kind.
extension BrokerProblem {
    package var errors: [FieldFault] {
        if case .fields(let faults) = payload { faults } else { [] }
    }

    package var login: StartedLogin? {
        if case .login(let login) = payload { login } else { nil }
    }

    package var providerError: String? {
        if case .providerError(let code) = payload { code } else { nil }
    }

    package var shortfall: StepUpShortfall? {
        if case .shortfall(let shortfall) = payload { shortfall } else { nil }
    }

    package var wanted: WantedStepUp? {
        if case .stepUp(let wanted) = payload { wanted } else { nil }
    }
}
