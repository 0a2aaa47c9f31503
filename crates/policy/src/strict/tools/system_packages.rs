//! Package managers of systems, of Ruby, PHP and other languages, and managers of versions.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{OPAQUE, OperandRole, PLAIN, ToolEntry, command_of, judge_by, refuse};
use super::options::Arguments;
use super::package_operands::{installed_packages, project_tool};
use crate::command::{Shell, Word};

/// Options of apt 2.6.1 (apt-get(8)). `-o` and `-c` set hooks that run programs.
const APT: &str = "-y --yes --assume-yes -q --quiet -s --simulate --dry-run --just-print -d \
    --download-only -f --fix-broken -m --ignore-missing --fix-missing --no-install-recommends \
    --install-recommends --no-install-suggests --only-upgrade --no-upgrade --reinstall --purge \
    --auto-remove --autoremove --allow-downgrades --allow-unauthenticated \
    --allow-change-held-packages --allow-releaseinfo-change -V --verbose-versions -u -t= \
    --target-release= --default-release= --installed --upgradable --manual-installed -n \
    --names-only --full -a --all-versions --no-download --print-uris -v --version -h --help";

/// Unchecked. Options of dnf 4 and yum. `--setopt`, `-c` and plugins change what runs.
const DNF: &str = "-y --assumeyes --assumeno -q --quiet -v --verbose --nogpgcheck --refresh -C \
    --cacheonly --best --nobest --allowerasing --skip-broken --enablerepo= --disablerepo= --repo= \
    --releasever= -x= --exclude= --installed --available --updates --security --version -h --help \
    --downloadonly --downloaddir= --showduplicates --all --setopt=install_weak_deps=False";

/// Unchecked. Options of RubyGems 3.3.
const GEM: &str = "-v= --version= --no-document -N --user-install -f --force -q --quiet -V --verbose \
    -a --all -l --local -r --remote -i= --install-dir= --pre --prerelease --conservative -x -s= \
    --source= -d --details --system --no-user-install -I -e --exact";

const APT_FILES: ToolEntry = ToolEntry { operands: OperandRole::Judged(package_files), ..OPAQUE };

const TABLE: &[ToolEntry] = &[
    ToolEntry {
        names: "apt apt-get aptitude",
        options: APT,
        shared: APT,
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "update upgrade full-upgrade dist-upgrade safe-upgrade install reinstall remove \
                purge autoremove autopurge clean autoclean list search show download check \
                build-dep satisfy policy depends rdepends",
            ..APT_FILES
        }]),
        ..OPAQUE
    },
    ToolEntry {
        names: "apt-cache apt-mark apt-file",
        options: "-a --all-versions -n --names-only -f --full --installed --recurse -q --version -h",
        ..PLAIN
    },
    // dpkg 1.21. Hooks (--pre-invoke) and roots are not listed; a package runs its own scripts.
    ToolEntry {
        names: "dpkg",
        options: "-i --install --unpack --configure -a --pending -r --remove -P --purge -l --list -L \
            --listfiles -s --status -S --search -c --contents -I --info -p --print-avail \
            --get-selections --print-architecture --print-foreign-architectures -V --verify \
            -C --audit --version --help --compare-versions --dry-run --no-act -f --field -W --show",
        operands: OperandRole::Judged(dpkg),
        ..OPAQUE
    },
    ToolEntry {
        names: "dpkg-query",
        options: "-W --show -l --list -L --listfiles -s --status -S --search -f= -p --print-avail \
            --showformat= -c --control-path --version --help --no-pager",
        ..PLAIN
    },
    ToolEntry {
        names: "dpkg-deb",
        options: "-c --contents -I --info -f --field -W --show --version --help",
        ..PLAIN
    },
    // Unchecked. RPM 4.18: queries; `--eval`, `--define`, `--pipe` and `--dbpath` run or change
    // code.
    ToolEntry {
        names: "rpm rpmquery rpmverify",
        options: "-q --query -a --all -i -l -f -p -R -c -d -s -V -v -h -U -F -e --info --list --file \
            --package --requires --provides --changelog --scripts --configfiles --verify \
            --whatrequires --whatprovides --last --version --import --checksig -K --install --upgrade \
            --erase --hash --nodeps --test --qf= --queryformat=",
        operands: OperandRole::Judged(rpm),
        ..OPAQUE
    },
    ToolEntry {
        names: "dnf yum microdnf",
        options: DNF,
        shared: DNF,
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "install reinstall remove erase update upgrade check-update list info search \
                provides whatprovides repolist clean makecache autoremove history group groupinstall \
                downgrade distro-sync module repoquery",
            ..APT_FILES
        }]),
        ..OPAQUE
    },
    // Unchecked. zypper 1.14, pacman 6, apk 2.12, Homebrew 4, MacPorts.
    ToolEntry {
        names: "zypper",
        options: "-n --non-interactive -q --quiet -v --verbose --no-gpg-checks --version",
        shared: "-n --non-interactive -q --quiet -v --verbose --no-gpg-checks -y --no-confirm \
            --no-recommends --auto-agree-with-licenses",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "install in remove rm update up refresh ref search se info if list-updates lu \
                repos lr dup patch",
            ..APT_FILES
        }]),
        ..OPAQUE
    },
    ToolEntry {
        names: "pacman yay paru",
        options: "-S -Q -R -F -T -D -y -u -s -i -l -q -c -e -d -t -k -o -p -m -n -w -g -V -h --sync \
            --query --remove --refresh --sysupgrade --search --info --noconfirm --needed --asdeps \
            --noprogressbar --recursive --version --help",
        ..OPAQUE
    },
    ToolEntry {
        names: "apk",
        options: "-q --quiet -v --verbose --no-cache -U --update-cache --no-progress -V --version -h --help",
        shared: "-q --quiet -v --verbose --no-cache -U --update-cache --no-progress --virtual= -t= \
            -u --upgrade -V --version -h --help --no-interactive",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "add del update upgrade info search list policy version stats fix",
            options: "-a -e -L -d -l --available --installed --purge",
            ..APT_FILES
        }]),
        ..OPAQUE
    },
    ToolEntry {
        names: "brew port",
        options: "--version -v --prefix --cellar --cache --repository -h --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "install uninstall remove upgrade update list ls info search outdated doctor deps \
                uses cleanup tap untap services reinstall leaves config pin unpin",
            options: "--cask --formula -q --quiet -v --verbose -f --force --json? --versions -1 --HEAD \
                --tree --installed --greedy -n --dry-run --no-quarantine --overwrite",
            ..APT_FILES
        }]),
        ..OPAQUE
    },
    ToolEntry {
        names: "snap flatpak",
        options: "--version --help -h",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "list find info install remove uninstall refresh update search version remotes \
                services connections",
            options: "--classic --channel= --all --user --system -y --assumeyes --app --runtime --edge \
                --beta --stable --noninteractive",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    // Unchecked. Nix 2.13: a command behind `-c` or `--run` is another command.
    ToolEntry {
        names: "nix",
        options: "--version --help",
        shared: "-L --print-build-logs -v --verbose --quiet --json --no-link --impure --offline \
            --refresh --show-trace --no-update-lock-file --accept-flake-config",
        operands: OperandRole::Subcommand(&[
            ToolEntry { names: "build fmt search eval", files: "flake.nix default.nix", ..OPAQUE },
            ToolEntry {
                names: "flake",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "check show update metadata lock info",
                    files: "flake.nix",
                    ..OPAQUE
                }]),
                ..OPAQUE
            },
            ToolEntry {
                names: "develop shell",
                options: "-c> --command>",
                files: "flake.nix",
                operands: OperandRole::JudgedFirst(behind_command),
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    ToolEntry {
        names: "nix-shell",
        options: "--pure --run= --command= -p --packages --version",
        files: "shell.nix default.nix",
        operands: OperandRole::Judged(nix_shell),
        ..OPAQUE
    },
    ToolEntry {
        names: "nix-build nix-env nix-store nix-instantiate nixos-rebuild guix",
        options: "--version --help",
        operands: OperandRole::Nothing,
        ..OPAQUE
    },
    // Unchecked. RubyGems 3.3, Bundler 2.3. `open`, `console`, `exec`, `help` start editors, shells
    // and pagers.
    ToolEntry {
        names: "gem",
        options: "-v --version -h --help",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "install update",
                options: GEM,
                operands: OperandRole::Judged(installed_packages),
                ..OPAQUE
            },
            ToolEntry {
                names: "uninstall list search info outdated environment env contents \
                    dependency specification which cleanup fetch push signin sources stale check",
                options: GEM,
                operands: OperandRole::Judged(package_files),
                ..OPAQUE
            },
            ToolEntry {
                names: "build",
                options: "-o= --strict",
                operands: OperandRole::Code,
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    ToolEntry {
        names: "bundle bundler",
        options: "-v --version -h",
        shared: "--verbose --no-color --retry= -r=",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "install update check list show outdated add remove lock cache package clean info \
                    platform version binstubs",
                options: "--path= --jobs= -j= --without= --with= --local --deployment --full-index \
                    --quiet --gemfile= --conservative --all --group= --patch --minor --major \
                    --add-platform= --force --frozen --no-cache --redownload --version= --git= --bundler?",
                code: "--gemfile --path",
                files: "Gemfile Gemfile.lock .bundle/config",
                ..OPAQUE
            },
            ToolEntry {
                names: "exec",
                files: "Gemfile .bundle/config",
                operands: OperandRole::JudgedFirst(project_tool),
                ..OPAQUE
            },
        ]),
        files: "Gemfile",
        ..OPAQUE
    },
    ToolEntry {
        names: "rails",
        options: "-v --version -h --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "test server s routes generate g destroy d db:migrate db:create db:drop db:seed \
                db:setup db:reset db:rollback db:prepare db:schema:load assets:precompile \
                zeitwerk:check about stats notes tmp:clear log:clear test:system new",
            options: "-b= -p= --binding= --port= -e= --environment= -n= --name= --skip -f --force \
                --pretend -v --verbose -d --fail-fast --api --no-migration -s= -c= -g=",
            files: "Gemfile config/application.rb",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    // Unchecked. Composer 2.5. `exec` and `global` run other commands, `config` changes settings.
    ToolEntry {
        names: "composer",
        options: "-h --help -q --quiet -V --version --ansi --no-ansi -n --no-interaction --no-plugins \
            --no-scripts -d= --working-dir= --no-cache -v",
        shared: "-h --help -q --quiet -V --version --ansi --no-ansi -n --no-interaction --no-plugins \
            --no-scripts -d= --working-dir= --no-cache -v --dev --no-dev --no-progress --profile \
            --prefer-dist --prefer-source --optimize-autoloader -o --classmap-authoritative -a -W \
            --with-all-dependencies --ignore-platform-reqs --ignore-platform-req= --dry-run --no-update \
            --no-autoloader -t --tree -l --latest --outdated --direct -D --format= --strict --lock \
            --no-check-publish --no-audit --locked --no-install -w",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "install i update u require remove dump-autoload dumpautoload show validate \
                    outdated audit test run-script run diagnose licenses why depends why-not prohibits \
                    search check-platform-reqs lint analyse analyze cs fix phpstan suggests fund status \
                    create-project about",
                code: "-d --working-dir",
                files: "composer.json",
                ..OPAQUE
            },
            ToolEntry { names: "exec", operands: OperandRole::JudgedFirst(project_tool), ..OPAQUE },
        ]),
        ..OPAQUE
    },
    // Managers of versions and environments that run a command inside.
    ToolEntry {
        names: "pyenv rbenv nodenv goenv asdf fnm volta jenv sdk chruby stack cabal opam",
        options: "--version -v -V --help -h",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "exec x",
                options: "--using=",
                operands: OperandRole::JudgedFirst(project_tool),
                ..OPAQUE
            },
            ToolEntry {
                names: "version versions local global install uninstall list ls current which where \
                    rehash use status build test update init prune upgrade outdated reshim doctor",
                options: "-l --list -s --skip-existing -f --force -v --verbose --bare -y --yes",
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    // `mise exec TOOL -- COMMAND` has a list of tools in front of the command.
    ToolEntry {
        names: "mise rtx",
        options: "--version -V --help -h",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "install list ls current which where use status outdated upgrade prune doctor",
            options: "-y --yes -f --force -v --verbose",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    // Programs with no closed list here.
    ToolEntry {
        names: "cpan cpanm cpanplus luarocks lein sbt mill pod port-tclsh alien checkinstall debsums \
            debconf-apt-progress update-alternatives eb certbot puppet facter chef-client salt-call \
            rex capistrano cap fastlane",
        options: "--version -V --help -h",
        operands: OperandRole::Nothing,
        ..OPAQUE
    },
];

/// Judges a package manager.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// A package by path runs its own scripts when it is installed.
fn package_files(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let is_file = |word: &&Word| {
        let endings = [".deb", ".rpm", ".gem", ".apk", ".rb"];
        word.text.contains('/') || endings.iter().any(|ending| word.text.ends_with(ending))
    };
    Ok(found.operands.iter().filter(is_file).cloned().map(Consequence::ReadsCode).collect())
}

/// `dpkg -i` takes files of any name.
fn dpkg(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["-i", "--install", "--unpack"]) {
        return installed_packages(found);
    }
    package_files(found)
}

/// rpm takes files of any name, unless it is only asked.
fn rpm(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["-q", "--query", "-V", "--verify"]) {
        return package_files(found);
    }
    installed_packages(found)
}

fn behind_command(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let is_option = |word: &Word| word.is("-c") || word.is("--command");
    let start = if found.has(&["-c", "--command"]) {
        Some(0)
    } else {
        // Packages stand in front of `-c`.
        let end = found.operands.iter().position(|word| word.text.starts_with('-'));
        let option = end.and_then(|index| found.operands.get(index));
        refuse(option, |word| !is_option(word))?;
        end.map(|index| index + 1)
    };
    let command = start.and_then(|start| command_of(found.operands.get(start..)?));
    Ok(vec![command.unwrap_or(Consequence::ReadsCodeFromInput)])
}

fn nix_shell(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    match found.values(&["--run", "--command"]).next() {
        Some(word) => {
            let text = word.value().ok_or_else(|| format!("the word {word}"))?.to_owned();
            Ok(vec![Consequence::Script { text, shell: Shell::Bash }])
        }
        None => Ok(vec![Consequence::ReadsCodeFromInput]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

    #[test]
    fn everyday_use_of_system_package_managers_is_known() {
        harmless(
            "apt-get update
            apt-get install -y --no-install-recommends curl git
            apt-get -qq install jq
            apt list --installed
            apt show curl
            apt-cache policy curl
            dpkg -l
            dpkg -L curl
            dpkg -S /usr/bin/curl
            dpkg --print-architecture
            dpkg-query -W -f '${Version}' curl
            rpm -qa
            rpm -ql bash
            dnf install -y gcc
            yum list installed
            pacman -Syu --noconfirm
            pacman -Qi bash
            apk add --no-cache curl
            brew install jq
            brew list --versions
            snap list
            nix build
            nix flake check
            gem install bundler -v 2.4
            gem list
            bundle install --jobs 4
            bundle exec rspec spec/x_spec.rb
            bundle exec rubocop -a
            bundle exec rake db:migrate
            rails db:migrate
            rails test
            composer install --no-interaction --prefer-dist
            composer require monolog/monolog
            composer test
            pyenv versions
            asdf current
            mise install",
        );
    }

    #[test]
    fn hooks_and_inner_commands_are_found() {
        check(
            "apt-get -o Dpkg::Pre-Invoke::=id update => the option -o
            apt-get update -oAPT::Update::Pre-Invoke::=id => the option -o
            apt-get changelog apt => the subcommand changelog
            apt -c x update => the option -c
            apt edit-sources => the subcommand edit-sources
            apt install ./x.deb => code ./x.deb
            dpkg -i x.deb => code x.deb
            dpkg -i x.txt => code x.txt
            rpm -U x.txt => code x.txt
            gem install x.gem => code x.gem
            gem install x.txt => code x.txt
            dpkg --pre-invoke=id -i x.deb => the option --pre-invoke
            dpkg --instdir=x -i y => the option --instdir
            rpm --eval '%(id)' => the option --eval
            rpm -E '%(id)' => the option -E
            rpm -q --pipe id => the option --pipe
            rpm --define 'x y' => the option --define
            rpm -ivh ./x.rpm => code ./x.rpm
            dnf -c x install y => the option -c
            yum --setopt=plugins=1 list => the option --setopt
            yum localinstall x.rpm => the subcommand localinstall
            pacman --hookdir x -S y => the option --hookdir
            pacman --config x => the option --config
            pacman -U x.pkg => the option -U
            brew sh => the subcommand sh
            snap run x => the subcommand run
            nix-shell --run id => script id
            nix-shell -p x => code from input
            nix run x => the subcommand run
            nix develop -c id => runs id
            nix shell ls -c touch x => runs touch x
            nix shell ls --arg x y => the word --arg
            mise x eslint -- id => the subcommand x
            gem open -e id x => the subcommand open
            gem exec x => the subcommand exec
            gem build x.gemspec => code x.gemspec
            bundle open x => the subcommand open
            bundle help => the subcommand help
            bundle exec id => runs id
            bundle config set x y => the subcommand config
            rails console => the subcommand console
            rails runner x => the subcommand runner
            composer exec id => runs id
            composer config x y => the subcommand config
            pyenv exec id => runs id
            update-alternatives --install a b c 1 => the option --install
            certbot certonly --pre-hook id => the option --pre-hook
            puppet apply -e x => the option -e
            puppet apply x.pp => the word apply
            facter --custom-dir=x => the option --custom-dir
            cpan ! => the word !",
        );
    }
}
